"""Rules as one value: the options in which a document, the code that ships and sound rules differ.

Each model has one class of rules, a frozen value like the parts of a scenario. `base` names a set of rules, and each
option is one field, made by `option`: what it means, its value in every set, and the sentence of the document that it
is about. An option that nobody sets is as the set has it, so a scenario can also pin one at the value of its set.
Docstring, table, file, form and ablation follow from the field.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self, get_args, get_type_hints

import pyarrow as pa
from pydantic import BeforeValidator

from wmlab.core.mistakes import RULE_SETS
from wmlab.core.signatures import PlainType
from wmlab.core.values import AnyValue, arguments, fields_in_use

if TYPE_CHECKING:
    # Whoever runs a scenario reads rules in effect, in which no option is unset.
    Option = Annotated[AnyValue, ...]
else:
    Option = Annotated[AnyValue | None, "None stands for the value of the set"]

_METADATA: Final = "option"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RuleOption:
    """An option of rules: what it means, its value in each set of rules, and what the document says.

    `parts` are the classes of the parts that it is about: in a scenario without any, the option has no effect.
    `sentence` is a sentence of the document, `source` where it stands.
    """

    meaning: str
    parts: tuple[str, ...]
    values: Mapping[str, Any]
    sentence: str
    source: str


def option(
    meaning: str,
    *parts: str,
    design: Any,
    implementation: Any,
    sound: Any,
    sentence: str,
    source: str,
    diagram: Any = None,
) -> Any:
    """The field of an option that is about these parts.

    `diagram` is for rules that have such a set: as the design, unless it says otherwise.
    """
    values = {
        "design": design,
        "implementation": implementation,
        "sound": sound,
        "diagram": design if diagram is None else diagram,
    }
    made = RuleOption(meaning=meaning, parts=parts, values=values, sentence=sentence, source=source)
    return dataclasses.field(default=None, kw_only=True, metadata={_METADATA: made})


class RuleSet:
    """The base of the rules of a model.

    A subclass has a field `base`, a choice of the names of its sets of rules, and a field for each option. `sets` are
    those names; `decided` has the options that the sets decide, by name. `formerly` says what to write instead of
    a field that a scenario or a part does not have any more.
    """

    base: Any
    sets: ClassVar[tuple[str, ...]]
    decided: ClassVar[Mapping[str, RuleOption]] = {}
    formerly: ClassVar[Mapping[str, str]]
    users_call_it: ClassVar[str]

    def __init_subclass__(cls, *, users_call_it: str = "", formerly: Mapping[str, str] = MappingProxyType({})) -> None:
        cls.formerly = formerly
        cls.users_call_it = users_call_it or cls.users_call_it
        cls.sets = get_args(get_type_hints(cls)["base"])
        own = {
            name: field.metadata[_METADATA]
            for name, field in vars(cls).items()
            if isinstance(field, dataclasses.Field) and _METADATA in field.metadata
        }
        cls.decided = {**cls.decided, **own}
        RULE_SETS.append(cls)
        meanings = (f"`{name}`: {said.meaning}" for name, said in own.items())
        cls.__doc__ = "\n".join(
            [inspect.cleandoc(cls.__doc__ or ""), *(textwrap.fill(text, width=112) for text in meanings)]
        )

    @classmethod
    def table(cls) -> pa.Table:
        """Every option: its part, what each set of rules has for it, what it means, and what the document says.

        Values are as in Python code. The table of `docs/design.md` is made from it.
        """
        return pa.Table.from_pylist(
            [
                {"option": name, "part": ", ".join(said.parts)}
                | {rules: repr(said.values[rules]) for rules in cls.sets}
                | {"meaning": said.meaning, "sentence": said.sentence, "source": said.source}
                for name, said in cls.decided.items()
            ]
        )

    @property
    def in_effect(self) -> Self:
        """The same rules, with each option that is unset as the set has it."""
        # What the sets have is valid (a test says so); to validate it again would cost as much as the scenario.
        filled = copy.copy(self)
        for name, said in self.decided.items():
            if getattr(self, name) is None:
                object.__setattr__(filled, name, said.values[self.base])
        return filled

    @property
    def options(self) -> dict[str, Any]:
        """The value in effect of every option, by name."""
        filled: Any = self.in_effect
        return {field.name: getattr(filled, field.name) for field in fields_in_use(self) if field.name != "base"}

    def __str__(self) -> str:
        """The set, and each option that is given besides."""
        options = [f"{name}={offered!r}" for name, offered in arguments(self) if name]
        return ", ".join([self.base, *options])

    @classmethod
    def named(cls, offered: object) -> object:
        """What stands for rules: the name of a set is the rules of that name; all else but fields is refused."""
        if isinstance(offered, cls | Mapping):
            return offered
        if offered in cls.sets:
            return cls(offered)  # type: ignore[call-arg]
        raise ValueError(f"give one of {', '.join(map(repr, cls.sets))}, or {cls.users_call_it}(...) with options")


if TYPE_CHECKING:
    OrName = Annotated[AnyValue | Any, "or the name of a set of rules"]
else:

    class OrName:
        """The type of a field of a scenario that takes rules, or the name of a set of them: `OrName[Rules]`."""

        def __class_getitem__(cls, made: type[RuleSet]) -> Any:
            signature = f"{made.__name__} | Literal[{', '.join(map(repr, made.sets))}]"
            return Annotated[made, BeforeValidator(made.named), PlainType(signature)]

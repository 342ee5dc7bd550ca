"""Rules as one value: the options in which a document, the code that ships and sound rules differ.

Each model has one class of rules, a frozen value like the parts of a scenario. `base` names a set of rules, and each
option is one field, made by `option`: what it means, its value in every set, and the sentence of the document that it
is about. An option that nobody sets is as the set has it, so a scenario can also pin one at the value of its set.
Docstring, table, file, form and ablation follow from the field.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self, get_args, get_type_hints

import pyarrow as pa
from pydantic import BeforeValidator

from wmlab.core.mistakes import RULES_OF, model_of
from wmlab.core.scenario_file import OptionChange, ScenarioFile
from wmlab.core.signatures import PlainType
from wmlab.core.values import AnyValue, fields_in_use

if TYPE_CHECKING:
    # Whoever runs a scenario reads rules in effect, in which no option is unset.
    Option = Annotated[AnyValue, "None stands for the value of the set"]
else:
    Option = Annotated[AnyValue | None, "None stands for the value of the set"]

_METADATA: Final = "option"
_AS_DESIGNED: Final = object()
_WIDTH: Final = 112


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

    @property
    def quotation(self) -> str:
        """The sentence of the document, and where it stands."""
        return f"“{self.sentence}” ({self.source})"


def option(
    meaning: str,
    *parts: str,
    design: Any,
    implementation: Any,
    sound: Any,
    sentence: str,
    source: str,
    diagram: Any = _AS_DESIGNED,
) -> Any:
    """The field of an option that is about these parts.

    `diagram` is for rules that have such a set: as the design, unless it says otherwise.
    """
    values = {"design": design, "implementation": implementation, "sound": sound}
    values["diagram"] = design if diagram is _AS_DESIGNED else diagram
    made = RuleOption(meaning=meaning, parts=parts, values=values, sentence=sentence, source=source)
    return dataclasses.field(default=None, kw_only=True, metadata={_METADATA: made})


class RuleSet:
    """The base of the rules of a model.

    A subclass has a field `base`, a choice of the names of its sets of rules, and a field for each option. `sets` are
    those names; `decided` has the options that the sets decide, by name.
    """

    base: Any
    sets: ClassVar[tuple[str, ...]]
    decided: ClassVar[Mapping[str, RuleOption]] = {}
    users_call_it: ClassVar[str]

    def __init_subclass__(cls, *, users_call_it: str = "") -> None:
        cls.users_call_it = users_call_it or cls.users_call_it
        cls.sets = get_args(get_type_hints(cls)["base"])
        fields = {name: field for name, field in vars(cls).items() if isinstance(field, dataclasses.Field)}
        own = {name: field.metadata[_METADATA] for name, field in fields.items() if _METADATA in field.metadata}
        cls.decided = {**cls.decided, **own}
        RULES_OF.setdefault(model_of(cls), cls)
        meanings = (f"`{name}`: {said.meaning}" for name, said in own.items())
        texts = [inspect.cleandoc(cls.__doc__ or ""), *(textwrap.fill(text, _WIDTH) for text in meanings)]
        cls.__doc__ = "\n".join(texts)

    @classmethod
    def table(cls) -> pa.Table:
        """Every option: its part, what each set of rules has for it, what it means, and what the document says.

        Values are as in Python code. The table of `docs/design.md` is made from it.
        """
        rows = [
            {"option": name, "part": ", ".join(said.parts)}
            | {rules: repr(said.values[rules]) for rules in cls.sets}
            | {"meaning": said.meaning, "sentence": said.sentence, "source": said.source}
            for name, said in cls.decided.items()
        ]
        return pa.Table.from_pylist(rows)

    @property
    def in_effect(self) -> Self:
        """The same rules, with each option that is unset as the set has it."""
        unset = {name: said for name, said in self.decided.items() if getattr(self, name) is None}
        if not unset:
            return self
        # What the sets have is valid (a test says so); to validate it again would cost as much as the scenario.
        filled = copy.copy(self)
        for name, said in unset.items():
            object.__setattr__(filled, name, said.values[self.base])
        return filled

    @property
    def options(self) -> dict[str, Any]:
        """The value in effect of every option, by name."""
        filled: Any = self.in_effect
        return {field.name: getattr(filled, field.name) for field in fields_in_use(self) if field.name != "base"}

    @classmethod
    def named(cls, offered: object) -> object:
        """What stands for rules: the name of a set is the rules of that name; all else but fields is refused."""
        if isinstance(offered, cls | Mapping):
            return offered
        if offered in cls.sets:
            return cls(offered)  # type: ignore[call-arg]
        names = ", ".join(map(repr, cls.sets))
        raise ValueError(f"give one of {names}, or {cls.users_call_it}(...) with the options to set")


def or_name(made: type[RuleSet]) -> Any:
    """The type of a field of a scenario that takes rules, or the name of a set of them."""
    shown = f"{made.__name__} | Literal[{', '.join(map(repr, made.sets))}]"
    return Annotated[made, BeforeValidator(made.named), PlainType(shown)]


class RuledScenario(ScenarioFile):
    """The base of the scenarios that follow `rules`, a value of the class `rule_set`."""

    rules: Any
    rule_set: ClassVar[type[RuleSet]]

    def replace(self, **fields: Any) -> Self:
        """The same scenario with some fields changed.

        `rules="design"` replaces the rules, with the options that they set; `with_rules` keeps those.
        """
        return super().replace(**fields)

    def with_rules(self, base: str | None = None, **options: Any) -> Self:
        """The same scenario by another set of rules, `base`, or with other `options`; those that it sets stay set."""
        return self.replace(rules=dataclasses.replace(self.rules, **({"base": base} if base else {}), **options))

    @property
    def resolved(self) -> Self:
        """The scenario that runs: the same one, with its rules in effect."""
        rules = self.rules.in_effect
        if rules is self.rules:
            return self
        filled = copy.copy(self)
        object.__setattr__(filled, "rules", rules)
        return filled

    @property
    def options(self) -> dict[str, Any]:
        """The value in effect of every option of the rules, by name."""
        return self.rules.options  # type: ignore[no-any-return]

    @classmethod
    def rule_names(cls) -> tuple[str, ...]:
        """The names of the sets of rules."""
        return cls.rule_set.sets

    def option_changes(self, to_rules: str) -> Iterator[OptionChange]:
        """Each option in which the set of the scenario's rules and another one differ, and that change alone."""
        parts = {base.__name__ for part in _parts_in(self) for base in part.__mro__}
        for name, said in self.rule_set.decided.items():
            before, after = said.values[self.rules.base], said.values[to_rules]
            if before == after:
                continue
            is_left = getattr(self.rules, name) is None and not parts.isdisjoint(said.parts)
            yield OptionChange(
                option=name,
                part=", ".join(said.parts),
                before=before,
                after=after,
                sentence=said.quotation,
                make=functools.partial(self.with_rules, **{name: after}) if is_left else None,
            )

    def to_dict(self) -> dict[str, Any]:
        """The scenario as dicts, lists and scalars; defaults are left out, a Python function is its name."""
        made = super().to_dict()
        if made.get("rules", {}).keys() == {"base"}:
            made["rules"] = self.rules.base
        return made


def _parts_in(part: Any) -> Iterator[type]:
    """The class of a value and of every value in it."""
    if isinstance(part, tuple):
        for entry in part:
            yield from _parts_in(entry)
    elif dataclasses.is_dataclass(part):
        yield type(part)
        for field in fields_in_use(part):
            yield from _parts_in(getattr(part, field.name))

"""What a script does to controllers, and to the log they write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wmlab.streams.scenario.script import (
    AddController,
    CrashController,
    ExpireSession,
    LoseBucketOwner,
    LoseMarksSegment,
    PauseController,
    RemoveController,
    TruncateMarks,
)

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller
    from wmlab.streams.sim.world import World


def crash_controller(world: World, action: CrashController) -> None:
    """Crash a controller now, or when its cycle comes to a point."""
    stream = world.stream(action.stream)
    controller = world.fleet.meant(action.controller, stream.name)
    if controller is None:
        _nobody(world, "crash", action.controller)
        return

    def crash() -> None:
        controller.crash()
        at = "" if action.point is None else f" {action.point.replace('_', ' ')}"
        world.happened("crash", controller.name, f"{controller.name} crashes{at}")
        if action.restart_after_ms is not None:
            world.after(action.restart_after_ms, restart)

    def restart() -> None:
        if controller.is_running or controller not in world.fleet.members:
            return
        controller.start()
        world.happened("restart", controller.name, f"{controller.name} restarts")

    _now_or_at(controller, action.point, stream.name, crash)


def pause_controller(world: World, action: PauseController) -> None:
    """Freeze a controller for a while, now or when its cycle comes to a point."""
    stream = world.stream(action.stream)
    controller = world.fleet.meant(action.controller, stream.name)
    if controller is None:
        _nobody(world, "pause", action.controller)
        return

    def pause() -> None:
        controller.pause(action.for_ms)
        at = "" if action.point is None else f" {action.point.replace('_', ' ')}"
        world.happened("pause", controller.name, f"{controller.name} pauses{at}")
        world.after(action.for_ms, world.happened, "resume", controller.name, f"{controller.name} goes on")

    _now_or_at(controller, action.point, stream.name, pause)


def _now_or_at(controller: Controller, point: str | None, stream: str, act: Callable[[], None]) -> None:
    if point is None:
        act()
    else:
        controller.armed.append((point, stream, act))


def expire_session(world: World, action: ExpireSession) -> None:
    """End a controller's session behind its back."""
    controller = world.fleet.meant(action.controller, world.stream(action.stream).name)
    if controller is None or controller.session is None:
        _nobody(world, "expire", action.controller)
        return
    world.happened("expire", controller.name, f"session of {controller.name} expires")
    world.coordinator.close(controller.session)
    world.after(action.notice_after_ms, controller.notice_expiry, controller.life)


def lose_bucket_owner(world: World, action: LoseBucketOwner) -> None:
    """Leave a stream's bucket without an owner for a while."""
    stream = world.stream(action.stream)
    bucket = world.metadata.bucket(stream.name)
    stream.happened("unowned", f"bucket {bucket}", f"nobody owns bucket {bucket}")
    world.coordinator.hold_back(bucket, action.for_ms)
    world.after(action.for_ms, stream.happened, "ownable", f"bucket {bucket}", f"bucket {bucket} can be owned")


def add_controller(world: World, _: AddController) -> None:
    """One more controller."""
    name = world.fleet.add().name
    world.happened("join", name, f"{name} joins")


def remove_controller(world: World, action: RemoveController) -> None:
    """A controller leaves in good order."""
    controller = world.fleet.meant(action.controller, world.stream(None).name)
    if controller is None:
        _nobody(world, "leave", action.controller)
        return
    world.fleet.remove(controller)
    world.happened("leave", controller.name, f"{controller.name} leaves")


def lose_marks_segment(world: World, action: LoseMarksSegment) -> None:
    """The marks segment cannot be found for a while."""
    stream = world.stream(action.stream)
    stream.log_missing = True
    stream.happened("lose", "marks segment", "the marks segment is missing")

    def find() -> None:
        stream.log_missing = False
        stream.happened("find", "marks segment", "the marks segment is back")

    world.after(action.for_ms, find)


def truncate_marks(world: World, action: TruncateMarks) -> None:
    """Only the newest entries of the marks segment stay."""
    stream = world.stream(action.stream)
    entries = stream.log.entries
    if len(entries) > action.keep:
        stream.log = stream.log.truncate(entries[len(entries) - action.keep - 1][0])
    stream.happened("truncate", "marks segment", f"the marks segment keeps {len(stream.log.entries)} entries")


def _nobody(world: World, kind: str, role: str) -> None:
    world.happened(kind, role, f"nobody is {role} now")

"""Installed packages that add something to Trivet, as their metadata says: nothing of them is imported here.

A package lists what it adds as entry points of the groups that `PluginKind` names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Final

from gateway.contracts.errors import PluginBroken


class PluginKind(StrEnum):
    """The kind of an entry point's addition; its group is `trivet.` and this."""

    TOOLS = "tools"
    COMMANDS = "commands"
    HOOKS = "hooks"
    CHANNELS = "channels"

    @property
    def group(self) -> str:
        """Return the group of its entry points."""
        return f"trivet.{self.value}"


class HookPoint(StrEnum):
    """The point of a hook's call. An entry point's name begins with it: `before_model`, `before_model.weather`."""

    AFTER_NORMALIZE = "after_normalize"
    """In the channels process: what a person said, before it is queued. A text that is returned replaces it."""
    BEFORE_MODEL = "before_model"
    """In the agent process: what was said. A text that is returned is told to the model beside it."""
    AFTER_ANSWER = "after_answer"
    """In the agent process: the model's answer, before it is committed. A text that is returned replaces it."""
    ON_DELIVERY = "on_delivery"
    """In the channels process: a reply that has come to its end (`outcome`). What is returned changes nothing."""


_GROUPS: Final = {kind.group: kind for kind in PluginKind}


@dataclass(frozen=True, slots=True)
class PluginPart:
    """One thing that an installed package adds. `gateway.plugins.load_part` imports it."""

    package: str
    version: str
    kind: PluginKind
    name: str
    entry: EntryPoint = field(repr=False)

    @property
    def point(self) -> HookPoint | None:
        """Return where a hook is called; None for everything else."""
        point = self.name.partition(".")[0]
        return HookPoint(point) if self.kind is PluginKind.HOOKS and point in set(HookPoint) else None

    def broken(self, why: str) -> PluginBroken:
        """Return the error that says why it cannot be used."""
        said = f"{self.package} {self.version}, {self.kind.group} {self.name}: {why}"
        return PluginBroken(f"{said}: mend it, or take {self.package} out of plugins.enabled")


def canonical_name(package: str) -> str:
    """Spell the name of a package as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", package).lower()


def parts_of(package: str) -> tuple[PluginPart, ...]:
    """List what an installed package adds, without importing anything of it. Raises `PluginBroken`."""
    try:
        found = distribution(package)
    except (PackageNotFoundError, ValueError) as error:
        raise PluginBroken(
            f"plugins.enabled names {package}, which is not installed: install it where Trivet is"
        ) from error
    return tuple(
        PluginPart(found.metadata["Name"], found.version, _GROUPS[entry.group], entry.name, entry)
        for entry in found.entry_points
        if entry.group in _GROUPS
    )


def enabled_parts(packages: Iterable[str], kind: PluginKind) -> tuple[PluginPart, ...]:
    """List what these packages add of one kind, without importing anything. One that is not installed adds nothing."""
    found: list[PluginPart] = []
    for package in packages:
        with suppress(PluginBroken):
            found += (part for part in parts_of(package) if part.kind is kind)
    return tuple(found)


def installed_packages() -> tuple[str, ...]:
    """List the packages that add something, enabled or not, by name."""
    entries = (entry for group in _GROUPS for entry in entry_points(group=group))
    return tuple(sorted({entry.dist.metadata["Name"] for entry in entries if entry.dist}, key=canonical_name))

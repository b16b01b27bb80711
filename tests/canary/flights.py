"""The doors: every pack said by a person, recited by the model, put into its tools; and those that take less."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from html import escape
from pathlib import Path
from sqlite3 import connect
from typing import Final

from agent.tools.files.workspace import Workspaces
from channels.emulators.stage import MenuStage, SharedFile, ThreadStage
from gateway.contracts.ids import SessionKey
from gateway.scrub import scrub
from tests.canary.flock import Canary, beginning_of, is_seen, text_of
from tests.parts.model_server import Failure, ModelServer
from tests.parts.pictures import docx
from tests.parts.product import PLATFORMS, Chat, Product
from tests.parts.waiting import until

IN_THE_AIR: Final = 16  # conversations at once
KEPT_EVERY: Final = 4  # a pack that goes into the arguments of a tool, too
NAMES: Final = 8  # people and groups who are called by a secret
NAME_CHARS_MAX: Final = 60  # what every platform takes for a name
PRINTED: Final = ("read", "send", "run", "query", "complain", "name", "break", "list", "write")
RAW_FILE: Final = "raw.txt"

Flight = Callable[[], Awaitable[object]]
Packs = Sequence[Sequence[Canary]]


@dataclass(frozen=True, slots=True)
class Sky:
    """One running product and the flock that flies through it."""

    product: Product
    model: ModelServer
    packs: Packs
    rng: random.Random

    async def fly(self) -> None:
        """Every flight once, many at a time; return when everything has landed."""
        places = asyncio.Semaphore(IN_THE_AIR)

        async def fly(flight: Flight) -> None:
            async with places:
                await flight()

        await asyncio.gather(*map(fly, self._flights()))
        await self._complain()
        await self.product.until_settled()

    def _flights(self) -> Iterator[Flight]:
        platforms = itertools.cycle(PLATFORMS)
        for number, pack in enumerate(self.packs):
            yield self._saying(next(platforms), f"pack {number}: {text_of(pack)}", f"pack {number}")
            yield self._asking(next(platforms), f"recite pack {number}", f"pack {number}")
            if number % KEPT_EVERY == 0:
                yield self._asking(next(platforms), f"keep pack {number}", "")
        for number, what in enumerate(PRINTED):
            for platform in PLATFORMS if what in ("send", "run") else (next(platforms),):
                yield self._using(platform, f"{what} pack {number % len(self.packs)}")
        for canary in self._short_ones():
            yield self._being_called(next(platforms), canary)
            yield self._meeting_in(next(platforms), canary)
        for platform in PLATFORMS:
            yield self._calling_for_others(platform)
            yield self._choosing(platform)
        yield from (self._with_a_caption, self._with_documents, self._commanding)
        yield from (self._changing_one_s_mind, self._talking_for_long)

    def _saying(self, platform: str, text: str, expecting: str) -> Flight:
        return lambda: self.product.chat(platform, "Ann").ask(text, expecting)

    def _asking(self, platform: str, text: str, expecting: str) -> Flight:
        return lambda: self.product.chat(platform, "Ben").ask(text, expecting)

    def _using(self, platform: str, text: str) -> Flight:
        """A tool; the file of the workspace that it may read has raw secrets in it, as a command may leave them."""

        async def use() -> None:
            chat = self.product.chat(platform, "Cleo")
            await chat.ask("hello", "hello")
            for folder in _folders(self.product.data_dir):
                (folder / RAW_FILE).write_text(text_of(self.packs[0]), "utf-8")
            await chat.ask(text)

        return use

    def _short_ones(self) -> list[Canary]:
        fitting = [
            canary
            for pack in self.packs
            for canary in pack
            if len(canary.text) <= NAME_CHARS_MAX
            and "\n" not in canary.text
            and not is_seen(canary, scrub(f"{canary.text}.txt"))
        ]
        return self.rng.sample(fitting, NAMES)

    def _being_called(self, platform: str, canary: Canary) -> Flight:
        return lambda: self.product.chat(platform, canary.text).ask("hello", "hello")

    def _meeting_in(self, platform: str, canary: Canary) -> Flight:
        """A group whose title is a secret."""

        async def meet() -> None:
            stage = self.product.stages[platform]
            chat = Chat(platform, stage, stage.add_person("Dora"), self.product.group(platform, canary.text))
            await chat.ask("hello", "hello")

        return meet

    async def _with_a_caption(self) -> None:
        """A file: what it is called, what it is said to be, what is written below it."""
        chat, stage = self.product.chat("telegram", "Emil"), self.product.stages["telegram"]
        for canary in self._short_ones()[:6]:
            file = SharedFile(f"{canary.text}.txt", canary.text, text_of(self.packs[1]).encode())
            await stage.say(chat.person.id, chat.place.id, beginning_of(self.packs[1], 1_000), files=[file])
        await chat.ask("is it all there?", "all there")

    async def _with_documents(self) -> None:
        """What is read in them by a process of its own, and a text in letters of two bytes."""
        chat, (one, other, *_) = self.product.chat("telegram", "Mia"), self._short_ones()
        for file in (
            SharedFile("letter.docx", "application/octet-stream", docx(escape(one.text))),
            SharedFile("page.html", "text/html", f"<p>{escape(other.text)}</p>".encode()),
            SharedFile("notes.txt", "text/plain", text_of(self.packs[5]).encode("utf-16")),
        ):
            await chat.ask(f"read {file.name}", f"read {file.name}", files=[file])

    def _calling_for_others(self, platform: str) -> Flight:
        """What others said: answered, passed on, read back in a thread that is called by a secret."""

        async def call() -> None:
            stage, group = self.product.stages[platform], self.product.group(platform, "Corner")
            other, chat = stage.add_person("Ned"), self.product.chat(platform, "Ona")
            title = self._short_ones()[0].text
            said = [await stage.say(other.id, group.id, text_of(pack)) for pack in self.packs[7:10]]
            await stage.say(chat.person.id, group.id, "what is that?", mention_bot=True, reply_to=said[0].id)
            await stage.share(chat.person.id, said[1].id, group.id, chat.place.id, "and this?")
            await until(lambda: "and this?" in chat.heard, lambda: f"{chat.answers} ({platform})")
            if isinstance(stage, ThreadStage):
                thread = stage.thread_from(other.id, group.id, said[2].id, title)
                await stage.say(other.id, thread.id, text_of(self.packs[10]))
                await stage.say(chat.person.id, thread.id, "do you follow?", mention_bot=True)
                await Chat(platform, stage, chat.person, thread).until_answered("do you follow?")

        return call

    def _choosing(self, platform: str) -> Flight:
        """From the menu: what stands behind a command, and what is typed until then."""

        async def choose() -> None:
            chat, canary = self.product.chat(platform, "Pia"), self._short_ones()[0]
            await chat.ask("hello", "hello")
            assert isinstance(chat.stage, MenuStage)
            await chat.stage.invoke(chat.person.id, chat.place.id, "title", canary.text)
            if any(entry.suggests for entry in chat.stage.menu(chat.person.id, chat.place.id)):
                await chat.stage.suggest(chat.person.id, chat.place.id, "resume", canary.text)
            await chat.ask("/sessions", "1")

        return choose

    async def _commanding(self) -> None:
        """Titles, reminders, memory, a search, a question that is asked twice, an export."""
        chat, pack = self.product.chat("telegram", "Finn"), self.packs[2]
        await chat.ask("recite pack 2", "pack 2")
        await chat.ask(f"/title {beginning_of(pack, 150)}")
        await chat.ask(f"/remind in 1 second {beginning_of(pack, 1_000)}")
        await chat.ask(f"/memory {beginning_of(pack, 1_000)}")
        for _ in range(2):
            await chat.ask(f"what is the meaning of {beginning_of(pack, 300)}?", "meaning")
        await chat.ask("/export", "keep of you")

    async def _changing_one_s_mind(self) -> None:
        """Edits, of what waits and of what was answered."""
        for platform in PLATFORMS:
            chat = self.product.chat(platform, "Gil")
            said = await chat.stage.say(chat.person.id, chat.place.id, "one moment")
            await chat.stage.edit(said.id, chat.place.id, text_of(self.packs[3]))
            await until(lambda chat=chat: bool(chat.answers), lambda: self.product.log[-2_000:])  # type: ignore[misc]
            await chat.stage.edit(said.id, chat.place.id, text_of(self.packs[4]))

    async def _talking_for_long(self) -> None:
        """Until the history has to be summarised, and is left for a new conversation."""
        chat = self.product.chat("slack", "Hedy")
        for number in range(min(4, len(self.packs))):
            await chat.ask(f"pack {number}: {text_of(self.packs[number])}", f"pack {number}")
        await chat.ask("/compact")
        await chat.ask("/new")
        await chat.ask("hello again", "hello again")

    async def _complain(self) -> None:
        """The provider's refusals quote what it was never given."""
        for pack in self.packs[:3]:
            self.model.failures.append(Failure(400, message=f"cannot make sense of {text_of(pack)}"))
            await self.product.chat("telegram", "Ida").ask("hello")


def _folders(data_dir: Path) -> list[Path]:
    """The folders of all conversations that have one, this one's made."""
    workspaces = Workspaces(data_dir / "workspaces")
    with closing(connect(f"file:{data_dir / 'trivet.db'}?mode=ro", uri=True)) as database:
        keys = [SessionKey.parse(key) for (key,) in database.execute("SELECT DISTINCT key FROM sessions")]
    return [workspaces.of(key).files for key in keys]

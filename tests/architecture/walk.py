"""List the product's files that one "hello" from Telegram enters: `python -m tests.architecture.walk`.

The whole product runs on the emulator, with the demo model; a first message warms it up. From then on every process
notes the first call of a function in each file, until the second message is answered and its receipt is written.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.parts.product import running_product
from tests.parts.waiting import until

ROOT: Final = Path(__file__).parents[2]
SETTLED_S: Final = 0.2
"""What happens so long after an answer belongs to its message: the receipt, and what follows a turn. Longer, and the
loops that look around every second would count."""

PROFILER: Final = """
import os, sys, threading, time
folder, root = os.environ.get("TRIVET_WALK") or {folder!r}, {root!r}
packages = tuple(os.path.join(root, name) + os.sep for name in ("gateway", "channels", "agent"))
seen = {{}}
def enter(frame, event, _argument):
    if event == "call":
        code = frame.f_code
        name = code.co_filename
        if name.startswith(packages) and name not in seen and code.co_name != "<module>" and os.path.exists(mark):
            seen[name] = time.time()
            with open(os.path.join(folder, str(os.getpid())), "a") as out:
                out.write(f"{{seen[name]}} {{name[len(root) + 1:]}}\\n")
mark = os.path.join(folder, "mark")
threading.setprofile(enter)
sys.setprofile(enter)
"""


async def main() -> None:
    """Print the files in the order in which they were entered, each with the process that entered it first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(PROFILER.format(folder=name, root=str(ROOT)))
        os.environ["PYTHONPATH"] = name
        async with running_product(folder, platforms=("telegram",)) as product:
            chat = product.chat("telegram", "Ann")
            await chat.ask("good morning")
            await asyncio.sleep(SETTLED_S)
            roles = {str(each.pid): role for role, several in product.processes().items() for each in several}
            (folder / "mark").touch()
            await chat.ask("hello")
            await until(lambda: bool(entries(folder)), lambda: "no process has noted anything")
            await asyncio.sleep(SETTLED_S)
            (folder / "mark").unlink()
            found = entries(folder)
    walk = [entry for entry in found if roles.get(entry[2], "") in ("agent", "channels")]
    files = dict.fromkeys(path for _, path, _ in walk if "emulators" not in path)
    for at, path, process in walk:
        if "emulators" not in path:
            sys.stdout.write(f"{(at - walk[0][0]) * 1000:8.1f} ms  {roles[process]:<10} {path}\n")
    sys.stdout.write(f"{len(files)} files\n")


def entries(folder: Path) -> list[tuple[float, str, str]]:
    """Return what the processes noted: when, which file, which process."""
    lines = [
        (float(line.split()[0]), line.split()[1], note.name)
        for note in folder.iterdir()
        if note.name.isdigit()
        for line in note.read_text("utf-8").splitlines()
    ]
    return sorted(lines)


if __name__ == "__main__":
    asyncio.run(main())

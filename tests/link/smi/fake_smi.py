"""A stand-in for nvidia-smi: a shell script that prints what a test left beside it, row by row."""

from __future__ import annotations

from pathlib import Path

# The program repeats the file `rows` with the time in front of each line; `words` instead, where there is
# one, is printed once and ends it. `old` makes it refuse the columns that an old nvidia-smi does not know.
SCRIPT = r"""#!/bin/sh
trap "" TERM HUP INT PIPE
here={folder}
echo $$ >>$here/pids
case "$*" in *pstate*)
    test -e $here/old && {{ echo "Field \"pstate\" is not a valid field to query."; exit 2; }}
esac
while :; do
    test -e $here/words && {{ cat $here/words; exit 9; }}
    now=$(date "+%Y/%m/%d %H:%M:%S.250")
    while read -r row; do case $row in *,*) echo "$now, $row";; *) echo "$row";; esac; done <$here/rows
    sleep 0.05
done
"""
BASIC = (
    "{index}, {uuid}, NVIDIA A100-SXM4-80GB, {bus}, 535.161.08, "
    "97, 41, 1024, 81920, 61, 310.55, 400.00, 1410, 1593, 4, 16"
)
MORE = "P0, [N/A], 0x0000000000000024, 1410, 1593, 4, 16, 400.00, 400.00, 3, 0"
LOST_MORE = ", ".join(["[GPU is lost]"] * 11)


def uuid(index: int) -> str:
    return f"GPU-0000000{index}-1111-2222-3333-444444444444"


def bus(index: int) -> str:
    return f"00000000:0{index}:00.0"


def row(index: int, *, more: bool = True) -> str:
    """A row as nvidia-smi prints it, without its time."""
    basic = BASIC.format(index=index, uuid=uuid(index), bus=bus(index))
    return f"{basic}, {MORE}" if more else basic


def lost_row(index: int) -> str:
    """A GPU that fell off the bus: only its place is still known."""
    return ", ".join([str(index), *["[GPU is lost]"] * 15, LOST_MORE])


class FakeSmi:
    """Put `folder` on a PATH."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.show(*(row(index) for index in range(2)))
        program = folder / "nvidia-smi"
        program.write_text(SCRIPT.format(folder=folder))
        program.chmod(0o755)

    def show(self, *rows: str) -> None:
        """Print these from now on."""
        new = self.folder / "rows.new"
        new.write_text("".join(f"{line}\n" for line in rows))
        new.rename(self.folder / "rows")

    def fail(self, words: str) -> None:
        """Print words and exit, now and whenever it is started again."""
        (self.folder / "words").write_text(words + "\n")

    def grow_old(self) -> None:
        """Know only the columns of an old driver."""
        (self.folder / "old").touch()

    def pids(self) -> list[int]:
        """Every nvidia-smi that was started."""
        path = self.folder / "pids"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

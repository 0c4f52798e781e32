"""The demo, begun as many seconds into its story as the first argument says; no option of the program."""

from __future__ import annotations

import sys
from functools import partial

from gpuwatch.cli.main import main
from gpuwatch.link.demo import links

if __name__ == "__main__":
    links.demo_links = partial(links.demo_links, start_s=float(sys.argv[1]))
    sys.argv = ["gpuwatch", "--demo", *sys.argv[2:]]
    main()

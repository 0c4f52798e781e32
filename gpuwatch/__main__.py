"""`python -m gpuwatch` is the same as the `gpuwatch` command."""

from gpuwatch.cli.main import main

main()

"""The program: `plugformer`, or `python -m plugformer`, as `torchrun -m plugformer` needs it."""

import sys

from plugformer.threads import limit_spinning


def main() -> None:
    """Runs a command and exits; Ctrl-C while commands are still being imported ends like any other."""
    try:
        limit_spinning()
        from plugformer.commands.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()

"""The command `fairgate`: every group of commands, put together."""

import sys

import typer

from fairgate.cli import bench, demo, hold, keys, reconcile, room, serve, simulate, sku, up

app = typer.Typer(
    name="fairgate",
    help="A self-hosted virtual waiting room in front of a flash-sale reservation backend.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog="Example: fairgate demo --shoppers 500 --exit")(demo.demo)
app.command(epilog="Example: fairgate up --shop http://127.0.0.1:3000 --room onsale")(up.up)
app.add_typer(serve.app, name="serve")
app.command(epilog="Example: FAIRGATE_DATABASE_URL=postgresql://… fairgate migrate")(serve.migrate)
app.add_typer(room.app, name="room")
app.add_typer(sku.app, name="sku")
app.add_typer(hold.app, name="hold")
app.command(epilog="Example: fairgate reconcile --once --json")(reconcile.reconcile)
app.command(epilog="Example: fairgate audit --json")(reconcile.audit)
app.add_typer(keys.app, name="keys")
app.add_typer(bench.app, name="bench")
app.add_typer(simulate.app, name="simulate")


def main() -> None:
    """The console script's entry."""
    if not all(_is_text(argument) for argument in sys.argv):
        sys.exit("An argument is not UTF-8 text: write it anew.")
    app()


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:  # bytes that were no UTF-8 stand in it as lone surrogates
        return False
    return True


if __name__ == "__main__":
    main()

"""What a command needs open: the stores of a running stack or its own, checked to hold our schema."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from chassis.database import STORE_AWAY, Pool, open_pool
from chassis.problems import Problem
from chassis.settings import Settings, SettingsError
from fairgate.stack.embedded import DEFAULT_FOLDER, Stack, open_stack
from fairgate.stack.errors import StackError
from fairgate.stack.signals import run_until_stopped

T = TypeVar("T")
DataOption = Annotated[Path, typer.Option("--data", help="Folder of the embedded stack's data.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DEFAULT_DATA = DEFAULT_FOLDER


@dataclass(frozen=True, slots=True)
class Books:
    """Open stores for one command."""

    stack: Stack
    settings: Settings
    pool: Pool


def settings_for(stack: Stack) -> Settings:
    """The environment's settings with this stack's servers. Raises SettingsError."""
    os.environ.update(
        FAIRGATE_DATABASE_URL=stack.database_url,
        FAIRGATE_REDIS_URL=stack.redis_url,
        FAIRGATE_MASTER_KEY=stack.master_key,
    )
    return Settings.from_environment()


@contextlib.asynccontextmanager
async def open_books(data: Path) -> AsyncIterator[Books]:
    """Join the stack that runs on `data`, or run one for the block. Raises StackError, SettingsError."""
    from fairgate.migrations.migrate import migrate  # SQLAlchemy takes a while to import

    async with open_stack(data, "join-or-own") as stack:
        settings = settings_for(stack)
        await migrate(settings.database_url)
        pool = await open_pool(settings, connections=4)
        try:
            yield Books(stack, settings, pool)
        finally:
            await pool.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work; what a user can mend ends it with one clear line and exit code 1."""
    return _guarded(lambda: asyncio.run(work))


def run_long(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run work that goes on until it is done or a signal stops it cleanly, and end with its exit code."""
    raise typer.Exit(_guarded(lambda: run_until_stopped(work)))


def _guarded(work: Callable[[], T]) -> T:
    try:
        return work()
    except (StackError, SettingsError) as error:
        fail(str(error))
    except Problem as problem:
        fail(problem.detail)
    except STORE_AWAY as error:
        fail(f"A store cannot be reached ({str(error) or type(error).__name__}). Is it running, and is its URL right?")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def fail(reason: str) -> NoReturn:
    """End the command with one clear line and exit code 1."""
    print(reason, file=sys.stderr)
    raise typer.Exit(1)

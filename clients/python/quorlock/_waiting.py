"""The two ways to wait for a call of the library: a thread blocks, or a coroutine awaits."""

from __future__ import annotations

import asyncio
from typing import Any

from quorlock._native import Call


def wait(call: Call) -> Any:
    """Blocks this thread without the GIL. Ctrl-C gives the call up."""
    return call.wait()


async def finish(call: Call) -> Any:
    """Awaits the result. A coroutine that is cancelled or closed gives the call up."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    call.start(loop, future)
    try:
        return await future
    except BaseException:
        call.cancel()
        raise

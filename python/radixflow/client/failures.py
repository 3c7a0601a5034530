"""What httpx raises, as the call's course knows it."""

from __future__ import annotations

import httpx

from radixflow.client.replies import Broken


def broken(error: httpx.RequestError | httpx.InvalidURL, seen: bool) -> Broken:
    """Describe a failure of the transport.

    Args:
        error: what httpx raised.
        seen: the response's status had arrived.
    """
    # Whoever has the request and is slow would have it twice; a connection that took too long carried nothing.
    is_slow = isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout)
    is_network = isinstance(error, (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError))
    problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if is_slow:
        problem = f"no response within the timeout ({problem})"
    return Broken(problem, may_retry=is_network and not (seen or is_slow))

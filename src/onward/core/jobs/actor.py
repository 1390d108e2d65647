"""The actor: the user or system on whose behalf an action is done, as the audit records it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from onward.core.inputs.fields import check_texts
from onward.errors import InvalidSetting, OnwardError


class Actor(msgspec.Struct, frozen=True):
    """An actor: a type such as `user`, `system` or `api_key`, and an id within it; written as `user:42`."""

    type: str
    id: str | None = None

    @classmethod
    def of(cls, actor: ActorLike, error: Callable[[str], OnwardError] = InvalidSetting) -> Actor:
        """Read an actor from `type:id` or a tuple of the two; raise `error` for anything else."""
        match actor:
            case Actor():
                read = actor
            case str() if all(parts := actor.partition(":")):
                read = cls(parts[0], parts[2])
            case (str(kind), str(name)):
                read = cls(kind, name)
            case _:
                raise error(
                    f"actor is {actor!r:.80}; give 'type:id', such as 'user:42', or a tuple of the two"
                )
        check_texts({"actor_type": read.type, "actor_id": read.id})
        return read

    def __str__(self) -> str:
        return self.type if self.id is None else f"{self.type}:{self.id}"


ActorLike = Actor | str | tuple[str, str]
"""The forms in which a caller may pass an actor."""

CODE = Actor("system", "code")
"""The actor of what the application's own code declares when a worker starts."""

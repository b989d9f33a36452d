"""What a patch makes of an aspect."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.limits import PATCH_TAKEN_BYTES
from mlcat_ingest.catalog.store.patch.document import PatchedDocument
from mlcat_ingest.catalog.store.patch.keyed import AbsentError, Path
from mlcat_ingest.catalog.store.patch.lineage import FIELD, to_entries, to_tree
from mlcat_ingest.catalog.store.patch.reading import Operation, Patch
from mlcat_ingest.catalog.store.patch.templates import is_list
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import dumps, loads


def apply_patch(patch: Patch, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `patch` makes of an aspect that is `value`, which is left as it is.

    Entries of arrays keep their order, new ones come last.

    Raises:
        InvalidProposalError: an operation does not fit what is there; the sentence names it.

    Cost: linear in the aspect and the patch.
    """
    base = _copy(value)
    others: list[Any] = []
    if patch.lineage:
        base[FIELD], others = to_tree(base.get(FIELD))
    document = PatchedDocument(base, patch.keys, lambda name: is_list(patch.aspect, name))
    editor = _Editor(document, lenient=patch.lenient)
    for at, operation in enumerate(patch.operations):
        try:
            editor.apply(operation)
        except AbsentError as error:
            raise InvalidProposalError(
                f"patch[{at}].path: {_pointer(operation.path)}: {error}"
            ) from error
    result = document.value()
    if not isinstance(result, dict):
        raise InvalidProposalError("patch: what it makes of the aspect is not an object")
    if patch.lineage and FIELD in result:
        result[FIELD] = to_entries(result[FIELD], others)
    return result


class _Editor:
    """Applies operations to a document, one after the other."""

    def __init__(self, document: PatchedDocument, *, lenient: bool) -> None:
        self._document = document
        self._lenient = lenient
        # Copies of copies would grow for ever.
        self._left_bytes = PATCH_TAKEN_BYTES

    def apply(self, operation: Operation) -> None:
        match operation.op:
            case "add":
                self._document.add(operation.path, _copy(operation.value))
            case "replace":
                self._document.replace(operation.path, _copy(operation.value))
            case "remove":
                if not self._document.remove(operation.path) and not self._lenient:
                    raise AbsentError("there is nothing to remove")
            case "test":
                if not _equal(self._take(operation.path), operation.value):
                    raise AbsentError("the test failed: another value is there")
            case "copy" | "move":
                self._transfer(operation)

    def _transfer(self, operation: Operation) -> None:
        taken = self._take(operation.source)
        if operation.op == "move":
            self._document.remove(operation.source)
        self._document.add(operation.path, taken)

    def _take(self, path: Path) -> Any:
        found = self._document.get(path)
        self._left_bytes -= len(_written(found))
        if self._left_bytes < 0:
            raise AbsentError("what is tested, moved and copied is too much for one patch")
        return found


def _copy(value: Any) -> Any:
    """Return a copy that shares nothing."""
    return loads(_written(value))


def _written(value: Any) -> bytes:
    """Return `value` as JSON; what is nested too deeply to be stored is refused."""
    try:
        return dumps(value)
    except CodecError as error:
        raise InvalidProposalError(f"patch: {error}") from error


def _equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: 1 equals 1.0, and neither equals true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_pairwise(left, right))
    return bool(left == right)


def _pairwise(left: Sequence[Any], right: Sequence[Any]) -> Iterator[bool]:
    return (_equal(one, other) for one, other in zip(left, right, strict=True))


def _pointer(path: Path) -> str:
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)

"""The folder of the codes of many files, and what it says about itself.

    codes/
      _manifest.json        what the codes depend on; at the end also the records of all ranges
      _done/                one record per range of rows that is finished, until the end
      part-0.parquet        the codes of data/part-0.parquet
      part-1-00000.parquet  the first range of data/part-1.parquet, which has several

pyarrow and Ray ignore names with an underscore when they read the folder.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from fwnet.coding.array_files import count_rows
from fwnet.coding.parts_folder import check_same
from fwnet.coding.row_coders import BAD_WORDS
from fwnet.coding.row_files import EncodeError
from fwnet.files import locked
from fwnet.stores import Store

MANIFEST, DONE = "_manifest.json", "_done"
DAMAGED = (ValueError, TypeError, KeyError, AttributeError, OverflowError)  # of odd JSON
REQUESTS = 16  # files that are opened at the same time: a store far away answers slowly


@dataclass(frozen=True)
class RowRange:
    """Some rows of a file, and the name of the file for their codes."""

    source: str
    first: int
    count: int
    name: str
    stamp: tuple[Any, ...]  # of the source when it was found

    @property
    def proof(self) -> str:
        """The name of the file for their certificates."""
        return str(PurePosixPath(self.name).with_suffix(".npy"))


@dataclass(frozen=True)
class CodesFolder:
    """The folder of the codes, and what it says about itself."""

    store: Store

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out; a store far away has no locks."""
        self.store.make()
        with locked(self.store.folder) if self.store.folder else contextlib.nullcontext():
            yield

    def begin(
        self,
        identity: dict[str, Any],
        ranges: list[RowRange],
        proofs: Store | None,
        *,
        resume: bool,
        force: bool,
    ) -> None:
        """Continue an encoding of the same identity, or start one; raise without consent."""
        self.store.remove_unfinished()
        if proofs is not None:
            proofs.remove_unfinished(one.proof for one in ranges)
        found = self._manifest()
        if found is None and (others := self.store.names()):
            raise EncodeError(
                f"{self.store} must be empty or hold an earlier encoding, got {others[0]!r}"
            )
        if found and resume:
            check_same(self.store, found["identity"], identity)
            return
        if found and not force:
            state, does = "unfinished", "continues"
            if "records" in found:
                state, does = "complete", "repairs"
            raise EncodeError(
                f"the encoding in {self.store} is {state}: --resume {does} it, --force starts over"
            )
        if proofs is not None:
            _check_proofs(proofs, ranges, force)
        for name in found["names"] if found else ():
            self.store.remove(name)
        self.store.remove(DONE)
        self._write({"identity": identity, "names": [one.name for one in ranges]})

    def records(self, ranges: list[RowRange], proofs: Store | None) -> dict[str, dict[str, Any]]:
        """Return the records of the ranges that are finished and still there, by name."""
        gathered: dict[str, Any] = {**(self._manifest() or {}).get("records", {})}
        known = {one.name for one in ranges}
        fresh = [n for file in self.store.names(DONE) if (n := file.removesuffix(".json")) in known]
        with at_the_same_time(self.store) as apply:
            read = apply(lambda name: self.store.read(f"{DONE}/{name}.json"), fresh)
            for name, text in zip(fresh, read, strict=True):
                try:
                    gathered |= {name: _checked_record(json.loads(text))} if text else {}
                except DAMAGED as error:
                    raise self._unreadable(f"{DONE}/{name}.json") from error

        def is_whole(one: RowRange) -> bool:
            proven = proofs is None or proofs.file(one.proof).exists()
            return proven and count_rows(self.store.file(one.name)) == one.count

        with at_the_same_time(self.store) as apply:
            done = [one for one in ranges if one.name in gathered]
            whole = [*apply(is_whole, done)]
        return {one.name: gathered[one.name] for one, is_ in zip(done, whole, strict=True) if is_}

    def finish(
        self, identity: dict[str, Any], ranges: list[RowRange], records: dict[str, dict[str, Any]]
    ) -> None:
        """Gather the records in the manifest."""
        names = [one.name for one in ranges]
        ordered = {name: records[name] for name in names}
        self._write({"identity": identity, "names": names, "records": ordered})
        self.store.remove(DONE)
        self.store.remove_unfinished()

    def _write(self, manifest: dict[str, Any]) -> None:
        self.store.write(MANIFEST, json.dumps(manifest, indent=1).encode())

    def _manifest(self) -> dict[str, Any] | None:
        text = self.store.read(MANIFEST)
        if text is None:
            return None
        try:
            found = dict(json.loads(text))
            _ = {**found["identity"]}
            if not all(_is_inside(name) for name in found["names"]):
                raise ValueError
            for record in found.get("records", {}).values():
                _checked_record(record)
        except DAMAGED as error:
            raise self._unreadable(MANIFEST) from error
        return found

    def _unreadable(self, name: str) -> EncodeError:
        return EncodeError(f"{self.store}/{name} is damaged: start anew in another folder")


@contextlib.contextmanager
def at_the_same_time(store: Store) -> Iterator[Callable[..., Any]]:
    """Yield `map`; for a store far away, one that has several requests at the same time.

    Without need no threads: Python waits forever for one that finds no memory when it starts.
    """
    if store.folder:
        yield map
    else:
        with ThreadPoolExecutor(REQUESTS) as pool:
            yield pool.map


def _check_proofs(proofs: Store, ranges: list[RowRange], force: bool) -> None:
    """Raise if a file of certificates would take the place of another."""
    wanted = Counter(one.proof for one in ranges)
    if twice := [name for name, times in wanted.items() if times > 1]:
        raise EncodeError(
            f"every file of certificates must have its own name, got {twice[0]} twice"
        )
    if not force and (there := [name for name in proofs.names() if name in wanted]):
        raise EncodeError(f"{proofs.file(there[0])} exists; overwrite it with --force")


def _checked_record(record: Any) -> dict[str, Any]:
    """Return the record of a range; raise unless it has what `CodeRange` writes."""
    _ = [int(0 + count) for count in (record["rows"], *record["counts"].values())]  # no texts
    _, _ = (0.0 + number for number in record["sum_of_errors"])
    _ = 0.0 + record["largest_gap"], 0.0 + record["largest_norm_gap"]
    if "first_bad_row" in record:
        _ = int(record["first_bad_row"]), int(record["counts"][BAD_WORDS])
    return dict(record)


def _is_inside(name: str) -> bool:
    """Return whether a name is that of a file below a folder: only such files are removed."""
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts

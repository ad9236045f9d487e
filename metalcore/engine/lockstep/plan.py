"""What is known about a kernel and a variant before code is written, and what the code needs of the module."""

from __future__ import annotations

from dataclasses import dataclass, field

from metalcore.engine.abi import SIMDGROUPS
from metalcore.engine.ir import Instr, Module, Value
from metalcore.engine.model import PRIVATE, TABLE, Site
from metalcore.engine.names import plain_name

from .addresses import Address
from .bounds import Bounds
from .factors import Factors
from .homes import Home
from .live import Liveness
from .roots import Root
from .same import Same
from .shape import Shape


@dataclass(frozen=True)
class Machine:
    """What the code depends on of the processor that it is for."""

    width: int  # lanes of 32 bits in a register
    has_half: bool = False  # it adds and multiplies half numbers
    masks_rows: bool = True  # it loads and stores rows under masks
    has_pairs: bool = False  # a register holds two rows of eight floats, and products are no slower in it
    has_extremes: bool = False  # maximum and maxNum of IEEE 754 are instructions; maxNum makes NaN of a signalling one


@dataclass
class Plan:
    """What all parts of the emitter need to know about the kernel and the variant."""

    machine: Machine
    layout: str
    single: bool
    checked: bool
    sanitized: bool
    ids: dict[tuple[str, int], Shape]
    bounds: Bounds
    users: dict[Instr, list[Instr]]
    shared_offsets: dict[str, int]
    module: Module
    live: Liveness
    homes: dict[Value, Home]
    factors: Factors
    coroutine: bool = False
    is_cut: bool = False  # simdgroups take turns between barriers (cuts.py)
    same: Same | None = None  # where that may be
    most_simdgroups: int = SIMDGROUPS  # of a threadgroup: what the source allows
    is_large: bool = False  # accesses under masks are calls
    calls_lanes: bool = False  # so are those of lanes that have an address each
    calls_rounding: bool = False  # and rounding to bfloat
    prefetch: bool = False  # ask early for what the next simdgroups read and write
    streamed: frozenset[Instr] = frozenset()  # stores whose rows may go past the cache
    uses_slow: bool = False
    sites: list[Site] = field(default_factory=list)
    site_numbers: dict[tuple[Instr, int, frozenset[Root]], int] = field(default_factory=dict)
    known_sites: dict[Site, int] = field(default_factory=dict)
    tables: dict[tuple[int, ...], str] = field(default_factory=dict)
    declarations: set[str] = field(default_factory=set)

    def site(self, instr: Instr, where: Address, kind: int) -> int:
        """Number of an access in the table that error messages are made from."""
        key = (instr, kind, where.roots)
        if key not in self.site_numbers:
            place = self.module.locations.get(instr.line)
            buffer: int | str | None = None
            if len(where.roots) == 1:
                root = next(iter(where.roots))
                buffer = root.slot if root.kind == "buffer" else root.name.lstrip("@%") or f"threadgroup({root.slot})"
                if root.kind == "private":
                    buffer = PRIVATE + root.name.lstrip("%").partition(".")[0]
                elif root.kind == "table":
                    buffer = TABLE + plain_name(root.name)
                elif root.kind == "unknown":
                    buffer = None
            self.site_numbers[key] = self._number(
                Site(
                    place.file if place else "",
                    place.line if place else 0,
                    place.column if place else 0,
                    ("load", "store", "atomic", "atomic")[kind],
                    buffer,
                    where.size,
                )
            )
        return self.site_numbers[key]

    def bare_site(self, instr: Instr, what: str) -> int:
        """Number of a barrier or shuffle in the same table."""
        place = self.module.locations.get(instr.line)
        where = (place.file, place.line, place.column) if place else ("", 0, 0)
        return self._number(Site(*where, what, None, 0))

    def _number(self, site: Site) -> int:
        """The same line is often written several times: it is one site."""
        if site not in self.known_sites:
            self.known_sites[site] = len(self.sites)
            self.sites.append(site)
        return self.known_sites[site]

    def offset_table(self, offsets: tuple[int, ...]) -> str:
        return self.tables.setdefault(offsets, f"@mc.offsets.{len(self.tables)}")

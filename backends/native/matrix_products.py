"""Products of matrices as machine code of our own, which adds up in BLAS's order.

A tile of the result stays in registers while its sums grow: some rows, and two vectors of columns.
The columns of a panel are laid side by side first, where they lie in memory as rows, or far apart.
The panels, and blocks of their rows, are parts that a team shares.

The sums have the bits of a BLAS that adds up products one by one, in blocks of terms whose sums it
adds up in turn: K. Goto, R. van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .array_objects import memory_loads
from .c_library_flags import FLAG_FUNCTIONS, noted_call
from .instructions import FLOAT_TYPES, Lines
from .printer import Module
from .product_parts import AT_ONE_PLACE
from .team import shared_call

__all__ = ["PRODUCT_FUNCTION", "PRODUCT_OBJECTS", "MatrixProduct", "own_product_text", "room_words"]

PRODUCT_FUNCTION = "own_product"
# The objects that the function takes: the factors, the result, its room, what may be added to each
# row, and the team's memory.
PRODUCT_OBJECTS = ("x", "y", "out", "room", "team")
BIASED_PRODUCT_OBJECTS = ("x", "y", "out", "room", "bias", "team")
# The room begins with a word of what the processor has told, and leads to a line of the cache.
LINE_BYTES, ROOM_WORD_BYTES = 64, 8
VECTORS_OF_A_PANEL = 2
# As many rows as registers have sums of, beside those of the second factor.
ROWS_OF_16_REGISTERS, ROWS_OF_32_REGISTERS = 6, 12
# So many terms are written one behind the other in a loop.
TERMS_OF_A_STEP = 4
# Terms of a column lie far apart from so many bytes on. Laying them side by side pays for so many
# tiles of rows.
FAR_APART, FEWEST_TILES_TO_LAY = 1024, 4
# A product with fewer panels has blocks of rows, too.
PARTS_OF_A_THREAD = 2


class MatrixProduct(NamedTuple):
    """Two matrices in C order, of which a product is made.

    Attributes:
        itemsize: the bytes of a float of theirs.
        sizes: the rows and the columns of the product, and what is summed over.
        turned: whether each factor is given transposed.
        sums: the lengths of the blocks of terms.
        begins_with_zero: whether the sum of the first block is added to 0 as well.
        vector_bytes: the size of a register.
        threads: how many threads may share it.
        biased: whether a row of numbers is added to each row of the product.
    """

    itemsize: int
    sizes: tuple[int, int, int]
    turned: tuple[bool, bool]
    sums: tuple[int, ...]
    begins_with_zero: bool
    vector_bytes: int
    threads: int
    biased: bool = False

    @property
    def objects(self) -> tuple[str, ...]:
        """The objects that the function takes."""
        return BIASED_PRODUCT_OBJECTS if self.biased else PRODUCT_OBJECTS

    @property
    def lanes(self) -> int:
        """The numbers of a register."""
        return self.vector_bytes // self.itemsize

    @property
    def width(self) -> int:
        """The columns of a panel."""
        return VECTORS_OF_A_PANEL * self.lanes

    @property
    def tile_rows(self) -> int:
        """The rows of a tile. AVX2 has half as many registers as AVX-512 and arm64."""
        return ROWS_OF_16_REGISTERS if self.vector_bytes == 32 else ROWS_OF_32_REGISTERS

    @property
    def panels(self) -> int:
        """The number of panels; the last may be narrow."""
        return -(-self.sizes[1] // self.width)

    @property
    def row_blocks(self) -> int:
        """The number of the blocks of rows of a panel."""
        wanted = -(-PARTS_OF_A_THREAD * self.threads // self.panels)
        return max(1, min(wanted, self.sizes[0] // self.tile_rows))

    @property
    def lays_panels(self) -> bool:
        """Columns of a panel are laid side by side if this is True."""
        rows, columns, _ = self.sizes
        far = columns * self.itemsize >= FAR_APART and rows >= FEWEST_TILES_TO_LAY * self.tile_rows
        return self.turned[1] or far

    @property
    def panel_bytes(self) -> int:
        """The room of a panel that is laid side by side; 0 without."""
        terms = -(-self.sizes[2] // self.lanes) * self.lanes
        return terms * self.width * self.itemsize if self.lays_panels else 0


def room_words(product: MatrixProduct) -> int:
    """Returns how many words of 8 bytes the room of a product has."""
    parts = product.panels * product.row_blocks
    return (2 * LINE_BYTES + parts * product.panel_bytes) // ROOM_WORD_BYTES


OWN_PRODUCT_TEXT = """
define internal void @product_part(ptr %arguments, i64 %part) noinline {{
  %said_reference = getelementptr ptr, ptr %arguments, i64 3
  %said_place = load ptr, ptr %said_reference, align 8
{noted_call}
}}
define i64 @{function}(ptr %objects) {{
entry:
  %arguments = alloca ptr, i64 {count}, align 16
{loads}
  store i64 0, ptr %data3, align 8
  %same = icmp eq ptr %data0, %data1
  br i1 %same, label %refuse, label %share
refuse:
  store i64 {at_one_place}, ptr %data3, align 8
  ret i64 1
share:
{shared}
  %said = load atomic i64, ptr %data3 acquire, align 8
  ret i64 %said
}}"""


def own_product_text(product: MatrixProduct) -> str:
    """Returns the text of the function of a product, of its objects.

    The room's first word then has what was told of the arithmetic.
    """
    module, call = Module(), Lines()
    # The team comes last, and is no argument of parts.
    count = len(product.objects) - 1
    parts = product.panels * product.row_blocks
    shared_call(call, module, f"%data{count}", "product_part", "%arguments", parts)
    share = OWN_PRODUCT_TEXT.format(
        function=PRODUCT_FUNCTION,
        noted_call=noted_call("@product_panel(ptr %arguments, i64 %part)", "%said_place"),
        count=count,
        loads=memory_loads(count + 1, range(count)),
        shared="\n".join(call.text),
        at_one_place=AT_ONE_PLACE,
    )
    texts = PanelWriter(product).texts()
    module.declared.update(texts.declared)
    module.declared.update(FLAG_FUNCTIONS)
    return module.text(*texts.functions, share)


class Texts(NamedTuple):
    """The functions of panels, and the declarations of what they call."""

    functions: list[str]
    declared: dict[str, str]


class PanelWriter:
    """Writes the function of one part: a panel, or a block of its rows.

    Args:
        product: the product.
    """

    def __init__(self, product: MatrixProduct) -> None:
        self.product = product
        self.element = FLOAT_TYPES[product.itemsize]
        self.lanes = product.lanes
        self.vector = f"<{self.lanes} x {self.element}>"
        rows, _, terms = product.sizes
        # How far rows of the first factor lie apart, and its columns; and columns of the second.
        self.x_steps = (1, rows) if product.turned[0] else (terms, 1)
        self.column_step = terms if product.turned[1] else 1
        self.lines = Lines()
        self.declared: dict[str, str] = {}

    def texts(self) -> Texts:
        """Returns the functions."""
        product = self.product
        whole, rest = divmod(product.sizes[1], product.width)
        functions = [
            self.panel(f"panel_of_{w}", w) for w in (product.width * bool(whole), rest) if w
        ]
        lines = self.lines = Lines()
        lines.begin("entry")
        places = []
        for i in range(len(product.objects) - 1):
            reference = lines.let(f"getelementptr ptr, ptr %arguments, i64 {i}")
            places.append(lines.let(f"load ptr, ptr {reference}, align 8"))
        panel = lines.let(f"udiv i64 %part, {product.row_blocks}")
        block = lines.let(f"urem i64 %part, {product.row_blocks}")
        edges = [self.edge(block), self.edge(lines.let(f"add i64 {block}, 1"))]
        column = lines.let(f"mul i64 {panel}, {product.width}")
        word = lines.let(f"ptrtoint ptr {places[3]} to i64")
        line = lines.let(f"add i64 {word}, {2 * LINE_BYTES - 1}")
        begin = lines.let(f"and i64 {line}, {-LINE_BYTES}")
        own = lines.let(f"mul i64 %part, {product.panel_bytes}")
        room = lines.let(f"inttoptr i64 {lines.let(f'add i64 {begin}, {own}')} to ptr")
        given = ", ".join([f"ptr {x}" for x in (*places[:3], room, *places[4:])])
        given += f", i64 {column}, i64 {edges[0]}, i64 {edges[1]}"
        if whole and rest:
            is_whole = lines.let(f"icmp ult i64 {panel}, {whole}")
            lines.add(f"br i1 {is_whole}, label %whole, label %narrow")
            for label, width in (("whole", product.width), ("narrow", rest)):
                lines.begin(label)
                lines.add(f"call void @panel_of_{width}({given})")
                lines.add("ret void")
        else:
            lines.add(f"call void @panel_of_{product.width if whole else rest}({given})")
            lines.add("ret void")
        head = "define internal void @product_panel(ptr %arguments, i64 %part) noinline {"
        functions.append("\n".join([head, *lines.text, "}"]))
        return Texts(functions, self.declared)

    def edge(self, block: str) -> str:
        """Writes where a block of rows begins: at a whole tile, or behind the last row."""
        product, lines = self.product, self.lines
        rows, tile = product.sizes[0], product.tile_rows
        before = lines.let(f"mul i64 {block}, {rows // tile}")
        tiles = lines.let(f"udiv i64 {before}, {product.row_blocks}")
        row = lines.let(f"mul i64 {tiles}, {tile}")
        is_last = lines.let(f"icmp eq i64 {block}, {product.row_blocks}")
        return lines.let(f"select i1 {is_last}, i64 {rows}, i64 {row}")

    def panel(self, name: str, width: int) -> str:
        """Returns the function of some rows of a panel of so many columns."""
        product = self.product
        lines = self.lines = Lines()
        lines.begin("entry")
        if product.lays_panels:
            self.lay(width)
            factor, step = "%room", product.width
        else:
            factor, step = self.at("%y", "%column"), product.sizes[1]
        rows, tile = product.sizes[0], product.tile_rows
        if rows >= tile:
            last = lines.let(f"sub i64 %high, {tile}")
            loop, behind = lines.label("tiles"), lines.label("rest")
            before = lines.block
            lines.add(f"br label %{loop}")
            lines.begin(loop)
            row, following = lines.name(), lines.name()
            place = len(lines.text)
            self.tile(row, tile, width, factor, step)
            lines.text.insert(
                place, f"  {row} = phi i64 [%low, %{before}], [{following}, %{lines.block}]"
            )
            lines.add(f"{following} = add i64 {row}, {tile}")
            more = lines.let(f"icmp ule i64 {following}, {last}")
            lines.add(f"br i1 {more}, label %{loop}, label %{behind}")
            lines.begin(behind)
        if rows % tile:
            is_last = lines.let(f"icmp eq i64 %high, {rows}")
            few, end = lines.label("few"), lines.label("end")
            lines.add(f"br i1 {is_last}, label %{few}, label %{end}")
            lines.begin(few)
            self.tile(str(rows - rows % tile), rows % tile, width, factor, step)
            lines.add(f"br label %{end}")
            lines.begin(end)
        lines.add("ret void")
        self.declared.update(lines.declared)
        given = "ptr noalias %x, ptr noalias %y, ptr noalias %out, ptr noalias %room"
        given += ", ptr noalias %bias" * product.biased
        head = (
            f"define internal void @{name}({given}, i64 %column, i64 %low, i64 %high) noinline {{"
        )
        return "\n".join([head, *lines.text, "}"])

    # -- tiles

    def tile(self, row: str, rows: int, width: int, factor: str, step: int) -> None:
        """Writes the product of some rows and the columns of a panel.

        Args:
            row: the number of the first row.
            rows: how many there are.
            width: the number of columns.
            factor, step: where the columns begin, and how far one term of them lies from the next.
        """
        lines = self.lines
        left = self.at("%x", lines.let(f"mul i64 {row}, {self.x_steps[0]}"))
        begin = lines.let(f"mul i64 {row}, {self.product.sizes[1]}")
        out = self.at("%out", lines.let(f"add i64 {begin}, %column"))
        bias = self.at("%bias", "%column") if self.product.biased else ""
        first = 0
        for terms in self.product.sums:
            sums = self.sums(left, rows, width, factor, step, first, terms)
            ends = first + terms == self.product.sizes[2]
            for i, own in enumerate(sums):
                for number, total in enumerate(own):
                    place = self.at(out, str(i * self.product.sizes[1] + number * self.lanes))
                    lanes = min(self.lanes, width - number * self.lanes)
                    if first:
                        total = lines.let(f"fadd {self.vector} {self.load(place, lanes)}, {total}")
                    elif self.product.begins_with_zero:
                        total = lines.let(f"fadd {self.vector} {total}, zeroinitializer")
                    if ends and self.product.biased:
                        added = self.load(self.at(bias, str(number * self.lanes)), lanes)
                        total = lines.let(f"fadd {self.vector} {total}, {added}")
                    self.store(total, place, lanes)
            first += terms

    def sums(
        self, left: str, rows: int, width: int, factor: str, step: int, first: int, terms: int
    ) -> list[list[str]]:
        """Writes sums of so many terms, and returns their names, row by row."""
        lines = self.lines
        count = -(-width // self.lanes)
        zeros = [["zeroinitializer"] * count for _ in range(rows)]
        steps = terms // TERMS_OF_A_STEP
        if steps < 2:
            return self.added(zeros, left, width, factor, step, str(first), range(terms))
        loop, behind, before = lines.label("terms"), lines.label("behind"), lines.block
        lines.add(f"br label %{loop}")
        lines.begin(loop)
        term, following = lines.name(), lines.name()
        own = [[lines.name() for _ in range(count)] for _ in range(rows)]
        place = len(lines.text)
        grown = self.added(own, left, width, factor, step, term, range(TERMS_OF_A_STEP))
        phis = [f"  {term} = phi i64 [{first}, %{before}], [{following}, %{loop}]"]
        for names, later in zip(own, grown, strict=True):
            phis += [
                f"  {x} = phi {self.vector} [zeroinitializer, %{before}], [{y}, %{loop}]"
                for x, y in zip(names, later, strict=True)
            ]
        lines.text[place:place] = phis
        end = first + steps * TERMS_OF_A_STEP
        lines.add(f"{following} = add i64 {term}, {TERMS_OF_A_STEP}")
        more = lines.let(f"icmp ult i64 {following}, {end}")
        lines.add(f"br i1 {more}, label %{loop}, label %{behind}")
        lines.begin(behind)
        rest = range(terms % TERMS_OF_A_STEP)
        return self.added(grown, left, width, factor, step, str(end), rest)

    def added(
        self,
        sums: list[list[str]],
        left: str,
        width: int,
        factor: str,
        step: int,
        term: str,
        more: range,
    ) -> list[list[str]]:
        """Writes sums with some terms more, behind the one of a number; returns their names."""
        lines = self.lines
        if not more:
            return sums
        left = self.at(left, lines.let(f"mul i64 {term}, {self.x_steps[1]}"))
        factor = self.at(factor, lines.let(f"mul i64 {term}, {step}"))
        for k in more:
            columns = [
                self.load(self.at(factor, str(k * step + n)), min(self.lanes, width - n))
                for n in range(0, width, self.lanes)
            ]
            grown = []
            for i, own in enumerate(sums):
                place = self.at(left, str(k * self.x_steps[1] + i * self.x_steps[0]))
                number = lines.let(f"load {self.element}, ptr {place}, align {self.align}")
                one = lines.let(
                    f"insertelement {self.vector} poison, {self.element} {number}, i32 0"
                )
                all_lanes = lines.let(
                    f"shufflevector {self.vector} {one}, {self.vector} poison, "
                    f"<{self.lanes} x i32> zeroinitializer"
                )
                grown.append([self.fma(all_lanes, y, z) for y, z in zip(columns, own, strict=True)])
            sums = grown
        return sums

    # -- a panel whose columns are laid side by side

    def lay(self, width: int) -> None:
        """Writes the columns of a panel into the room, term by term."""
        lines, lanes = self.lines, self.lanes
        lay = self.lay_turned if self.product.turned[1] else self.lay_copied
        terms = self.product.sizes[2]
        whole = terms // lanes * lanes
        if whole:
            loop, behind, before = lines.label("laid"), lines.label("behind"), lines.block
            lines.add(f"br label %{loop}")
            lines.begin(loop)
            term, following = lines.name(), lines.name()
            lines.text.append(f"  {term} = phi i64 [0, %{before}], [{following}, %{loop}]")
            lay(term, lanes, width)
            lines.add(f"{following} = add i64 {term}, {lanes}")
            more = lines.let(f"icmp ult i64 {following}, {whole}")
            lines.add(f"br i1 {more}, label %{loop}, label %{behind}")
            lines.begin(behind)
        if terms % lanes:
            lay(str(whole), terms % lanes, width)

    def lay_copied(self, term: str, terms: int, width: int) -> None:
        """Writes some terms of all columns, which lie as rows do."""
        lines, columns = self.lines, self.product.sizes[1]
        to = self.at("%room", lines.let(f"mul i64 {term}, {self.product.width}"))
        begin = lines.let(f"mul i64 {term}, {columns}")
        source = self.at("%y", lines.let(f"add i64 {begin}, %column"))
        for k in range(terms):
            for first in range(0, width, self.lanes):
                given = self.at(source, str(k * columns + first))
                value = self.load(given, min(self.lanes, width - first))
                self.store(value, self.at(to, str(k * self.product.width + first)), self.lanes)

    def lay_turned(self, term: str, terms: int, width: int) -> None:
        """Writes some terms of all columns: squares of vectors are transposed in registers."""
        lines, lanes = self.lines, self.lanes
        distance = self.column_step
        to = self.at("%room", lines.let(f"mul i64 {term}, {self.product.width}"))
        for first in range(0, width, lanes):
            column = lines.let(f"add i64 %column, {first}")
            begin = lines.let(f"mul i64 {column}, {distance}")
            source = self.at("%y", lines.let(f"add i64 {begin}, {term}"))
            square = [
                self.load(self.at(source, str(n * distance)), terms)
                if first + n < width
                else "zeroinitializer"
                for n in range(lanes)
            ]
            half = 1
            while half < lanes:
                square = self.exchanged(square, half)
                half *= 2
            for k in range(terms):
                place = self.at(to, str(k * self.product.width + first))
                self.store(square[k], place, lanes)

    def exchanged(self, square: Sequence[str], half: int) -> list[str]:
        """Writes vectors whose lanes with a bit are exchanged with those of others without it."""
        lanes, found = self.lanes, list(square)
        low = [i if not i & half else lanes + i - half for i in range(lanes)]
        high = [i + half if not i & half else lanes + i for i in range(lanes)]
        for i in range(lanes):
            if not i & half:
                for number, mask in ((i, low), (i + half, high)):
                    found[number] = self.shuffled(square[i], square[i + half], mask)
        return found

    # -- instructions

    @property
    def align(self) -> int:
        """The alignment of an element, in bytes."""
        return self.product.itemsize

    def at(self, base: str, number: str) -> str:
        """Writes the address of an element."""
        return self.lines.let(f"getelementptr {self.element}, ptr {base}, i64 {number}")

    def fma(self, x: str, y: str, z: str) -> str:
        """Writes ``x * y + z``, rounded once."""
        name = f"llvm.fma.v{self.lanes}f{8 * self.product.itemsize}"
        return self.lines.call(name, self.vector, [(self.vector, v) for v in (x, y, z)])

    def shuffled(self, x: str, y: str, mask: Sequence[int]) -> str:
        """Writes a vector of lanes of two others, behind each other."""
        places = ", ".join(f"i32 {place}" for place in mask)
        given = f"{self.vector} {x}, {self.vector} {y}"
        return self.lines.let(f"shufflevector {given}, <{self.lanes} x i32> <{places}>")

    def mask(self, lanes: int) -> str:
        """Returns the mask of the first lanes."""
        bits = ", ".join(f"i1 {str(i < lanes).lower()}" for i in range(self.lanes))
        return f"<{self.lanes} x i1> <{bits}>"

    def load(self, place: str, lanes: int) -> str:
        """Writes the load of some lanes; the others are 0."""
        if lanes == self.lanes:
            return self.lines.let(f"load {self.vector}, ptr {place}, align {self.align}")
        name = f"llvm.masked.load.v{self.lanes}f{8 * self.product.itemsize}.p0"
        mask = f"<{self.lanes} x i1>", self.mask(lanes).partition("> ")[2]
        given = [("ptr", place), ("i32", str(self.align)), mask, (self.vector, "zeroinitializer")]
        return self.lines.call(name, self.vector, given)

    def store(self, value: str, place: str, lanes: int) -> None:
        """Writes the store of some lanes."""
        if lanes == self.lanes:
            self.lines.add(f"store {self.vector} {value}, ptr {place}, align {self.align}")
            return
        name = f"llvm.masked.store.v{self.lanes}f{8 * self.product.itemsize}.p0"
        mask = f"<{self.lanes} x i1>", self.mask(lanes).partition("> ")[2]
        given = [(self.vector, value), ("ptr", place), ("i32", str(self.align)), mask]
        self.lines.call(name, "void", given)

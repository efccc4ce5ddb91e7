"""Makes catalogues of shops: invented products, some of which several sellers have listed in their own words.

A family is a product in its variants, with what is sold for it and its neighbours in the maker's range: what blocking
pairs with a listing is mostly of its family. The kinds of products and the makers of one part of the data are in no
other.
"""

from __future__ import annotations

import random
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import yaml

PRODUCTS = Path(__file__).parent / "products.yaml"
FIRST, MIDDLE, LAST = (
    {
        "training": [
            "Vel",
            "Kest",
            "Om",
            "Lum",
            "Nord",
            "Tav",
            "Quil",
            "Bran",
            "Sol",
            "Har",
            "Zan",
            "Fen",
            "Wol",
            "Gri",
        ],
        "validation": ["Pel", "Jun", "Yst", "Cor", "Bel", "Tor"],
        "demonstration": ["Rov", "Dax", "Il", "Mar", "Ped", "Sum", "Hel", "Ast", "Kir", "Oru"],
    },
    ["mo", "re", "bra", "i", "ha", "is", "le", "ko", "ve", "ti", "do", "pa", "u", "lin"],
    ["ra", "lon", "fit", "nar", "vn", "try", "x", "vi", "nna", "sk", "dale", "tek", "wood", "mark", "lo", "ne"],
)
LETTERS = "ABCDEGHKLMPRSTVX"
SAID_TOO = ["new", "with warranty", "free returns", "original packaging", "in stock", "bestseller", "2 year guarantee"]
# how sellers begin a listing: of a product, and of what is sold for one
FORMS = ["{maker} {code} {name}", "{name} {maker} {code}", "{maker} {name} {code}"]
FORMS_SOLD_FOR_IT = [
    "{sold_for_it} for {maker} {code}",
    "{maker} {sold_for_it} ({code})",
    "{sold_for_it} for {maker} {code} {name}",
]
# how sellers write a value
WORDS = {
    "colour": {
        "black": ["black", "matt black", "blk"],
        "white": ["white", "pure white"],
        "grey": ["grey", "gray", "silver grey"],
        "navy": ["navy", "navy blue", "dark blue"],
        "red": ["red", "bright red"],
        "green": ["green", "forest green"],
        "beige": ["beige", "sand"],
        "pink": ["pink", "rose"],
    },
    "size": {
        "S": ["S", "size S", "small"],
        "M": ["M", "size M", "medium"],
        "L": ["L", "size L", "large"],
        "XL": ["XL"],
    },
    "switches": {"red": ["red switches", "linear switches"], "blue": ["blue switches", "clicky switches"]},
    "flavour": {"apple": ["apple", "with apple"], "nut": ["nut", "with nuts"], "berry": ["berry", "with berries"]},
    "nib": {"F": ["nib F", "fine nib"], "M": ["nib M", "medium nib"], "B": ["nib B", "broad nib"]},
}
# of a number: the usual values, and how sellers write one
NUMBERS: dict[str, tuple[list[float], list[str]]] = {
    "litres": ([0.8, 1.2, 1.5, 4, 5.5], ["{:g} l", "{:g}L", "{:g} litres"]),
    "shoe_size": ([38, 39, 40, 41, 42, 43, 44], ["EU {:g}", "{:g} EU", "size {:g}"]),
    "watts": ([5, 9, 20, 45, 65, 100], ["{:g} W", "{:g}W", "{:g} watts"]),
    "millimetres": ([4, 6, 8, 10], ["{:g} mm", "{:g}mm thick"]),
    "gigabytes": ([64, 128, 256, 512], ["{:g} GB", "{:g}GB"]),
    "centimetres": ([12, 16, 18, 20, 24, 28], ["{:g} cm", "{:g}cm"]),
    "bar": ([110, 130, 145, 180], ["{:g} bar", "max. {:g} bar"]),
    "amp_hours": ([2, 4, 5], ["{:g}.0 Ah", "{:g}Ah", "2 x {:g} Ah batteries"]),
    "inches": ([12, 16, 20, 24, 27, 32], ["{:g} inch", '{:g}"', "{:g} in"]),
    "spf": ([20, 30, 50], ["SPF {:g}", "SPF{:g}", "factor {:g}"]),
    "millilitres": ([50, 75, 200, 250, 400, 500], ["{:g} ml", "{:g}ml"]),
    "pack": ([2, 3, 4, 6, 12], ["pack of {:g}", "{:g}-pack", "{:g} pcs", "set of {:g}"]),
    "grams": ([250, 400, 500, 750], ["{:g} g", "{:g}g"]),
    "pieces": ([30, 40, 60, 90, 120], ["{:g} tabs", "{:g} pieces", "{:g} pcs"]),
    "kilograms": ([2, 3, 5, 12, 15], ["{:g} kg", "{:g}kg"]),
    "metres": ([1.5, 3, 5, 10, 20, 25], ["{:g} m", "{:g}m", "{:g} metres"]),
}
# quantities that sellers write in another unit too: the least value, the factor, the words
OTHER_UNITS = {
    "litres": (0.0, 1000, "{:g} ml"),
    "gigabytes": (1000, 0.001, "{:g} TB"),
    "millilitres": (200, 0.001, "{:g} l"),
    "grams": (500, 0.001, "{:g} kg"),
}


class Item(NamedTuple):
    """What is sold, without the words of a seller.

    Attributes:
        family: the number of its family.
        maker, code: who makes it, and its model number.
        product: its kind of product, an entry of products.yaml.
        sold_for_it: what it is, if it is no such product but something that is sold for it; else "".
        values: in what it differs from its variants, by the kind of difference.
    """

    family: int
    maker: str
    code: str
    product: dict[str, Any]
    sold_for_it: str
    values: tuple[tuple[str, Any], ...]

    def attribute(self, name: str) -> Any:
        """The maker, code, name of the product, what is sold for it, or a value; None if it has no such attribute."""
        fields = {"maker": self.maker, "code": self.code, "name": self.product["names"][0]}
        return {**fields, "sold_for_it": self.sold_for_it or None, **dict(self.values)}.get(name)


class Span(NamedTuple):
    """Where an attribute stands in a text: its first character, the one after its last, and its name."""

    start: int
    end: int
    attribute: str


class Listing(NamedTuple):
    """A listing: its number, the number of the item that it offers, its text, its attributes there, and the item."""

    id: int
    item: int
    text: str
    spans: tuple[Span, ...]
    offered: Item


def make_listings(count: int, part: str = "demonstration", seed: int = 0) -> list[Listing]:
    """A catalogue, of which about half of the items have several listings.

    Args:
        count: the number of listings.
        part: of the data: training, validation or demonstration.
        seed: another one gives another catalogue of the same kinds of products.
    """
    chance = random.Random(f"{part} {seed}")
    products = yaml.safe_load(PRODUCTS.read_text(encoding="utf-8"))[part]
    makers = [_maker(part, chance) for _ in range(max(8, count // 60))]
    listings: list[Listing] = []
    number = family = 0
    while len(listings) < count:
        product = chance.choice(products)
        for item in _family(family, chance.choice(makers), product, chance):
            for _ in range(chance.choice((1, 1, 2, 2, 3))):
                listings.append(Listing(0, number, *written(item, chance), item))
            number += 1
        family += 1
    chance.shuffle(listings)
    return [listing._replace(id=place) for place, listing in enumerate(listings[:count])]


def kind_of(left: Item, right: Item) -> str:
    """How two items are related, in the labels of the head `kind`."""
    if left == right:
        return "same_item"
    if left.family == right.family and left.code == right.code:
        return "accessory" if left.sold_for_it != right.sold_for_it else "variant"
    if left.product is right.product and left.sold_for_it == right.sold_for_it == "":
        return "related"
    return "unrelated"


def _maker(part: str, chance: random.Random) -> str:
    return chance.choice(FIRST[part]) + "".join(chance.sample(MIDDLE, chance.choice((0, 1, 1)))) + chance.choice(LAST)


def _family(family: int, maker: str, product: dict[str, Any], chance: random.Random) -> list[Item]:
    """The items of a family: some models of a maker's range, each with some variants and what is sold for it."""
    letters = "".join(chance.sample(LETTERS, chance.choice((1, 2, 2))))
    numbers = chance.sample(range(1, 10), chance.choice((1, 2, 2, 3)))
    tail = chance.choice(("0", "00", "10", "50", "25"))
    items = []
    for first in numbers:
        code = f"{letters}-{first}{tail}"
        main = [_values(product, chance)]
        for _ in range(chance.choice((0, 1, 1, 2))):
            other = dict(main[0])
            varied = chance.choice(list(product["varies"]))
            other[varied] = _value(product, varied, chance, other[varied])
            main.append(other)
        items += [Item(family, maker, code, product, "", tuple(values.items())) for values in main]
        if chance.random() < 0.4:
            items.append(Item(family, maker, code, product, chance.choice(product["sold_for_it"]), ()))
    return [item for place, item in enumerate(items) if item not in items[:place]]


def _values(product: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    return {kind: _value(product, kind, chance) for kind in product["varies"]}


def _value(product: dict[str, Any], kind: str, chance: random.Random, other_than: Any = None) -> Any:
    values = product["varies"][kind]
    if values == "any":
        values = list(WORDS[kind]) if kind in WORDS else NUMBERS[kind][0]
    return chance.choice([value for value in values if value != other_than])


def written(item: Item, chance: random.Random) -> tuple[str, tuple[Span, ...]]:
    """An item in the words of a seller, and where each of its attributes stands."""
    codes = [item.code, item.code, item.code.replace("-", ""), item.code.replace("-", " "), item.code.lower()]
    words = {"maker": item.maker, "code": chance.choice(codes), "name": chance.choice(item.product["names"])}
    words["sold_for_it"] = item.sold_for_it
    values = [(kind, _as_written(kind, value, chance)) for kind, value in item.values]
    words.update(values)
    chance.shuffle(values)
    extra = chance.sample(SAID_TOO, chance.choice((0, 0, 1, 1, 2)))
    separator = chance.choice((", ", ", ", " - ", " "))
    form = chance.choice(FORMS_SOLD_FOR_IT if item.sold_for_it else FORMS)
    text, spans = "", []
    for literal, name, *_ in Formatter().parse(separator.join([form, *(f"{{{kind}}}" for kind, _ in values), *extra])):
        text += literal
        if name is not None:
            spans.append(Span(len(text), len(text) + len(words[name]), name))
            text += words[name]
    return text[:1].upper() + text[1:] if chance.random() < 0.5 else text, tuple(spans)


def _as_written(kind: str, value: Any, chance: random.Random) -> str:
    if kind in WORDS:
        return chance.choice(WORDS[kind][value])
    ways = [way.format(value) for way in NUMBERS[kind][1]]
    least, factor, words = OTHER_UNITS.get(kind, (float("inf"), 1, ""))
    if value >= least and (kind != "litres" or value < 2):
        ways.append(words.format(value * factor))
    return chance.choice(ways)

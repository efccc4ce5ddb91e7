"""Makes catalogues of shops: invented products, some of which several sellers have listed in their own words.

A family is a product in its variants, with what is sold for it and its neighbours in the maker's range: what blocking
pairs with a listing is mostly of its family. The kinds of products and the makers of one part of the data are in no
other.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

PRODUCTS = Path(__file__).parent / "products.yaml"
FIRST, MIDDLE, LAST = (
    ["Vel", "Kest", "Om", "Lum", "Nord", "Tav", "Quil", "Bran", "Sol", "Har", "Pel", "Jun", "Rov", "Dax", "Il", "Mar"],
    ["mo", "re", "bra", "i", "ha", "is", "le", "ko", "ve", "ti", "do", "pa", "u", "lin"],
    ["ra", "lon", "fit", "nar", "vn", "try", "x", "vi", "nna", "sk", "dale", "tek", "wood", "mark", "lo", "ne"],
)
LETTERS = "ABCDEGHKLMPRSTVX"
SAID_TOO = ["new", "with warranty", "free returns", "original packaging", "in stock", "bestseller", "2 year guarantee"]
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
# values of a number, and how sellers write one
NUMBERS: dict[str, tuple[list[float], Callable[[float], list[str]]]] = {
    "litres": (
        [0.8, 1.2, 1.5, 1.7, 4, 5.5, 28, 35, 45],
        lambda n: [f"{n:g} l", f"{n:g}L", f"{n:g} litres"] + ([f"{n * 1000:g} ml"] if n < 2 else []),
    ),
    "shoe_size": ([38, 39, 40, 41, 42, 43, 44], lambda n: [f"EU {n:g}", f"{n:g} EU", f"size {n:g}"]),
    "watts": ([5, 9, 20, 45, 65, 100, 700, 1000, 2200], lambda n: [f"{n:g} W", f"{n:g}W", f"{n:g} watts"]),
    "millimetres": ([4, 6, 8, 10], lambda n: [f"{n:g} mm", f"{n:g}mm thick"]),
    "gigabytes": (
        [64, 128, 256, 512, 1000],
        lambda n: [f"{n:g} GB", f"{n:g}GB"] + (["1 TB", "1TB"] if n == 1000 else []),
    ),
    "centimetres": ([12, 16, 18, 20, 24, 28, 110, 120], lambda n: [f"{n:g} cm", f"{n:g}cm"]),
    "bar": ([110, 130, 145, 180], lambda n: [f"{n:g} bar", f"max. {n:g} bar"]),
    "amp_hours": ([2, 4, 5], lambda n: [f"{n:g}.0 Ah", f"{n:g}Ah", f"2 x {n:g} Ah batteries"]),
    "inches": ([12, 16, 20, 24, 27, 32], lambda n: [f"{n:g} inch", f'{n:g}"', f"{n:g} in"]),
    "spf": ([20, 30, 50], lambda n: [f"SPF {n:g}", f"SPF{n:g}", f"factor {n:g}"]),
    "millilitres": (
        [50, 75, 200, 250, 400, 500],
        lambda n: [f"{n:g} ml", f"{n:g}ml"] + ([f"{n / 1000:g} l"] if n >= 200 else []),
    ),
    "pack": ([2, 3, 4, 6, 12], lambda n: [f"pack of {n:g}", f"{n:g}-pack", f"{n:g} pcs", f"set of {n:g}"]),
    "grams": (
        [250, 400, 500, 750, 1000],
        lambda n: [f"{n:g} g", f"{n:g}g"] + ([f"{n / 1000:g} kg"] if n >= 500 else []),
    ),
    "pieces": ([30, 40, 60, 90, 120], lambda n: [f"{n:g} tabs", f"{n:g} pieces", f"{n:g} pcs"]),
    "kilograms": ([2, 3, 5, 12, 15], lambda n: [f"{n:g} kg", f"{n:g}kg"]),
    "metres": ([1.5, 3, 5, 10, 20, 25], lambda n: [f"{n:g} m", f"{n:g}m", f"{n:g} metres"]),
}


class Item(NamedTuple):
    """What is sold, without the words of a seller.

    Attributes:
        family: of which it is a member.
        name: the number of its kind of product; or what is sold for that kind.
        values: in what it differs from its variants, by the kind of difference.
    """

    family: int
    maker: str
    code: str
    product: dict[str, Any]
    sold_for_it: str
    values: tuple[tuple[str, Any], ...]


class Listing(NamedTuple):
    """A listing: its number, the number of the item that it offers, its text, and the item."""

    id: int
    item: int
    text: str
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
    makers = [_maker(chance) for _ in range(max(8, count // 60))]
    listings: list[Listing] = []
    number = family = 0
    while len(listings) < count:
        product = chance.choice(products)
        for item in _family(family, chance.choice(makers), product, chance):
            for _ in range(chance.choice((1, 1, 2, 2, 3))):
                listings.append(Listing(0, number, written(item, chance), item))
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


def _maker(chance: random.Random) -> str:
    return chance.choice(FIRST) + "".join(chance.sample(MIDDLE, chance.choice((0, 1, 1)))) + chance.choice(LAST)


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


def written(item: Item, chance: random.Random) -> str:
    """An item in the words of a seller."""
    code = chance.choice(
        (item.code, item.code, item.code.replace("-", ""), item.code.replace("-", " "), item.code.lower())
    )
    name = chance.choice(item.product["names"])
    values = [_as_written(kind, value, chance) for kind, value in item.values]
    if item.sold_for_it:
        head = chance.choice(
            (f"{item.sold_for_it} for {item.maker} {code}", f"{item.maker} {item.sold_for_it} ({code})")
        )
        head = f"{head} {name}" if chance.random() < 0.3 else head
    else:
        head = chance.choice(
            (f"{item.maker} {code} {name}", f"{name} {item.maker} {code}", f"{item.maker} {name} {code}")
        )
    chance.shuffle(values)
    extra = chance.sample(SAID_TOO, chance.choice((0, 0, 1, 1, 2)))
    joint = chance.choice((", ", ", ", " - ", " "))
    text = joint.join([head, *values, *extra])
    return text[:1].upper() + text[1:] if chance.random() < 0.5 else text


def _as_written(kind: str, value: Any, chance: random.Random) -> str:
    return chance.choice(WORDS[kind][value] if kind in WORDS else NUMBERS[kind][1](value))

"""Makes the listings of a shop: invented products, some of which several sellers have listed in their own words."""

from __future__ import annotations

import random
from typing import NamedTuple

BRANDS = ["Velmora", "Kestrelon", "Ombrafit", "Luminar", "Nordhavn", "Tavistry", "Quillex", "Brankovi", "Solvenna"]
PRODUCTS = {
    "wireless headphones": ["headphones, Bluetooth", "over-ear headphones, cordless", "BT headphones"],
    "electric kettle": ["kettle, electric", "water boiler", "cordless kettle"],
    "running shoes": ["trainers for running", "jogging shoes", "road running shoe"],
    "desk lamp": ["LED lamp for the desk", "table lamp, dimmable", "reading lamp"],
    "hiking backpack": ["rucksack for hiking", "trekking pack", "backpack, outdoor"],
    "coffee grinder": ["burr grinder", "grinder for coffee beans", "electric coffee mill"],
    "bicycle helmet": ["cycle helmet", "helmet for bikes", "bike helmet, adult"],
    "yoga mat": ["exercise mat", "mat for yoga, non-slip", "fitness mat"],
}
COLOURS = ["black", "sand white", "forest green", "navy", "red", "silver"]
SIZES = ["small", "medium", "large", "0.8 l", "1.5 l", "28 l", "42 EU", "38 EU"]
WORDS = ["new", "with warranty", "free returns", "2-pack", "original box", "light", "durable", "for beginners"]


class Listing(NamedTuple):
    """A listing, and the item that it offers."""

    id: int
    item: int
    text: str


def make_listings(count: int, seed: int = 0) -> list[Listing]:
    """Listings, about a third of which offer an item that another one offers too."""
    source = random.Random(seed)
    listings: list[Listing] = []
    item = 0
    while len(listings) < count:
        brand, product = source.choice(BRANDS), source.choice(list(PRODUCTS))
        model = f"{source.choice('ABCDEKTVX')}{source.choice('ABCDEKTVX')}-{source.randint(100, 999)}"
        colour, size = source.choice(COLOURS), source.choice(SIZES)
        for seller in range(source.choice((1, 1, 1, 2, 3))):
            name = source.choice([product, *PRODUCTS[product]]) if seller else product
            written = source.choice((model, model.replace("-", ""), model.replace("-", " "))) if seller else model
            parts = [f"{brand} {written} {name}", colour, size, source.choice(WORDS)]
            listings.append(Listing(len(listings), item, ", ".join(parts[: source.randint(3, 4)])))
        item += 1
    return listings[:count]

"""`make demo-duplicates`: finds the duplicates of a shop's catalogue, as Amazon Search describes it.

Every listing is embedded, each is paired with those of the same model number and its nearest ones, and the model
`product-duplicates` judges the pairs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from examples.catalogue_duplicates.block import block
from examples.catalogue_duplicates.make_data import make_listings
from marina.drawing import new_figure, svg_of
from marina.project import find_project

EMBEDDING, JUDGE = "resume-search", "product-duplicates"
PAIRS_A_LISTING = 8
BARE_ROWS, BARE_S = 2000, "20"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.catalogue_duplicates", description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster; local starts one on this machine")
    parser.add_argument("--bare", action="store_true", help="also measure the graphs alone, on some of the pairs")
    arguments = parser.parse_args()
    folder = find_project().root / "build" / "demo-duplicates"
    folder.mkdir(parents=True, exist_ok=True)
    listings = make_listings(max(2, arguments.pairs // PAIRS_A_LISTING))
    table = pa.table({name: [getattr(listing, name) for listing in listings] for name in ("id", "item", "text")})
    parquet.write_table(table, folder / "listings.parquet")
    where = ["--ray", arguments.ray] if arguments.ray else []
    embedded = _score(EMBEDDING, folder, "listings", "embedded", "--keep", "id", *where)
    print(f"{embedded['rows']:,} listings embedded: {embedded['rows_per_s']:,.0f} a second")

    answers = parquet.read_table(folder / "embedded.parquet")
    vectors = np.stack(answers["embedding"].to_numpy(zero_copy_only=False)).astype(np.float32)
    left, right = block(vectors, table["text"].to_pylist(), arguments.pairs).T
    columns = {"left": left, "right": right, "text": table["text"].take(left), "text_pair": table["text"].take(right)}
    parquet.write_table(pa.table(columns), folder / "pairs.parquet")
    judged = _score(JUDGE, folder, "pairs", "judged", "--keep", "left,right", *where)
    rate, padding = judged["rows_per_s"], judged["padding"]
    print(f"{judged['rows']:,} pairs judged: {rate:,.0f} a second, {100 * padding:.0f} % padding")
    if arguments.bare:
        bare = _bare_rate(folder)
        print(f"the graphs alone: {bare:,.0f} pairs a second; the job reached {rate / bare:.0%} of it")
    _report(folder, np.array([listing.item for listing in listings]))


def _score(name: str, folder: Path, source: str, to: str, *options: str) -> dict[str, Any]:
    """Run `marina score` from the beginning; returns what it prints as JSON."""
    places = ["--input", str(folder / f"{source}.parquet"), "--output", str(folder / f"{to}.parquet")]
    command = [sys.executable, "-m", "marina", "score", name, *places, "--restart", "--json", *options]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def _bare_rate(folder: Path) -> float:
    """Pairs a second of the graphs in a loop."""
    texts = parquet.read_table(folder / "pairs.parquet", columns=["text", "text_pair"])
    some = texts.take(np.random.default_rng(0).choice(len(texts), min(BARE_ROWS, len(texts)), replace=False))
    (folder / "some.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some.to_pylist()))
    command = [sys.executable, "-m", "marina", "bench", "run", JUDGE, "--bare", "--texts", str(folder / "some.jsonl")]
    ran = subprocess.run([*command, "--seconds", BARE_S, "--json"], check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(ran.stdout)["entries"][0]["rounds"][0]["throughput"])


def _report(folder: Path, items: Any) -> None:
    """What was found, against what is known of the listings; some duplicates to look at, and a picture."""
    judged = parquet.read_table(folder / "judged.parquet")
    is_same = items[judged["left"].to_numpy()] == items[judged["right"].to_numpy()]
    called_same = compute.equal(judged["duplicate_label"], "yes").to_numpy()
    _, listings_of_item = np.unique(items, return_counts=True)
    duplicates = int((listings_of_item * (listings_of_item - 1) // 2).sum())
    right = (called_same & is_same).sum()
    print(f"{called_same.sum():,} duplicates found: precision {right / max(1, called_same.sum()):.1%}")
    print(f"{duplicates:,} duplicates are there: recall {right / duplicates:.1%}; {is_same.sum():,} were compared")
    texts = parquet.read_table(folder / "listings.parquet")["text"].to_pylist()
    for row in judged.filter(pa.array(called_same)).slice(0, 3).to_pylist():
        print(f"  {row['duplicate_score']:.2f}  {texts[row['left']]}  =  {texts[row['right']]}")
    scores = np.where(called_same, judged["duplicate_score"].to_numpy(), 1 - judged["duplicate_score"].to_numpy())
    _draw(folder / "precision-recall.svg", scores, is_same, duplicates)


def _draw(path: Path, scores: Any, is_same: Any, duplicates: int) -> None:
    """Precision against recall, over all thresholds."""
    order = np.argsort(-scores)
    right = np.cumsum(is_same[order])
    with new_figure(size=(5, 3.5)) as (figure, (axis,)):
        axis.plot(right / duplicates, right / np.arange(1, len(right) + 1))
        axis.set(xlabel="recall", ylabel="precision", xlim=(0.5, 1), ylim=(0.5, 1.01))
        path.write_bytes(svg_of(figure))
    print(f"picture: {path}")


if __name__ == "__main__":
    main()

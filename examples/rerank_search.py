"""Re-rank the top 100 of Elasticsearch or OpenSearch, and learn from the click.

    perturank serve
    python examples/rerank_search.py make --search http://127.0.0.1:9200/products --fields price rating
    python examples/rerank_search.py search "red shoes" --search http://127.0.0.1:9200/products --title name

`make` makes a model of these fields, whose scale the service finds itself; made again with other fields, it keeps what
it has learned. `search` takes the engine's best, whose order is the prior: the ranker starts from it and
departs from it as clicks teach it. Where the ranking service does not answer, the engine's own order is shown.
Needs `perturank[service]`.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import httpx

from perturank import BadInput, Client
from perturank.client import Document, Feature, NoAnswer, ServiceProblem

MODEL = "products"
NOTHING = "nothing was found"
SCORE = "score"  # of the engine, relative to its best
PRIOR = 12.0  # how far the engine's first stands above a document that does not match: larger, and it is moved less


class Engine:
    """An index of Elasticsearch or OpenSearch."""

    def __init__(self, address: str, key: str | None) -> None:
        headers = {} if key is None else {"authorization": f"ApiKey {key}"}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=10)

    def check(self, fields: list[str]) -> None:
        """Refuse a field in which no document has a number."""
        asked = {field: {"extended_stats": {"field": field}} for field in fields}
        found = self._asked({"size": 0, "aggs": asked})["aggregations"]
        empty = [field for field in fields if not found[field]["count"]]
        if empty:
            sys.exit(f"no document has a number in {', '.join(empty)}")

    def best(self, text: str, fields: list[str], k: int) -> list[dict[str, Any]]:
        """Return the best k, best first, each with these fields, however deep they lie."""
        body = {"size": k, "query": {"multi_match": {"query": text}}, "_source": False, "fields": fields}
        return list(self._asked(body)["hits"]["hits"])

    def _asked(self, body: dict[str, Any]) -> Any:
        return self._http.post("/_search", json=body).raise_for_status().json()


def value(hit: dict[str, Any], field: str | None) -> Any:
    """Return what a hit has in a field; None: nothing. The engine gives lists, since a field may hold several."""
    return next(iter(hit.get("fields", {}).get(field, [])), None)


def documents(hits: list[dict[str, Any]], fields: list[str]) -> list[Document]:
    """Return hits as perturank takes them: numbers by name, those that are missing left out."""
    best = max(hit["_score"] for hit in hits) or 1.0
    found = []
    for hit in hits:
        relative = hit["_score"] / best
        numbers = {field: float(known) for field in fields if (known := value(hit, field)) is not None}
        found.append(Document(hit["_id"], {SCORE: relative, **numbers}, prior=PRIOR * relative))
    return found


def make(client: Client, engine: Engine, fields: list[str]) -> None:
    """Make the model, or give it other fields."""
    engine.check(fields)
    features = [Feature(SCORE), *map(Feature, fields)]
    client.put_model(MODEL, n_features=len(features), features=features)
    print(f"model {MODEL!r} has {', '.join(feature.name for feature in features)}")


def search(client: Client, engine: Engine, text: str, title: str | None, k: int) -> None:
    """Search, re-rank, show, and send the click back."""
    shown_fields = [] if title is None else [title]
    try:
        known = client.model(MODEL)["spec"]["features"]  # an application asks once, when it starts
        fields = [each["name"] for each in known if each["name"] != SCORE]
        hits = engine.best(text, fields + shown_fields, k)
        shown = client.rank(documents(hits, fields), model=MODEL, query=text) if hits else None
    except (NoAnswer, ServiceProblem) as problem:
        print(f"not ranked: {problem}", file=sys.stderr)
        hits, shown = engine.best(text, shown_fields, k), None
    names = {hit["_id"]: value(hit, title) or hit["_id"] for hit in hits}
    if shown is None:
        print("\n".join(f"{place:2} {name}" for place, name in enumerate(list(names.values())[:10], 1)) or NOTHING)
        return
    for place, (name, certain) in enumerate(zip(shown.ids, shown.certain, strict=True), 1):
        print(f"{place:2} {names[name]}{'' if certain else '  (explored)'}")
    by_place = {str(place): name for place, name in enumerate(shown.ids, 1)}
    clicked = by_place.get(input("clicked (a place, or nothing): ").strip())
    # Sent again for as long as it takes another server to take over: it counts once.
    print(client.limited(patience=15).feedback(shown.impression, [clicked] if clicked else [], model=MODEL, final=True))


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--search", required=True, help="address of the index")
    shared.add_argument("--search-key", help="API key of the engine, where it asks for one")
    shared.add_argument("--service", default="http://127.0.0.1:8765", help="address of `perturank serve`")
    shared.add_argument("--key", help="API key of the service, where it asks for one; `make` needs scope admin")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", parents=[shared], help="make the model, once")
    making.add_argument("--fields", nargs="+", required=True, help="numbers that may tell how good a document is")
    searching = commands.add_parser("search", parents=[shared], help="search, and click")
    searching.add_argument("text", help="what to search for")
    searching.add_argument("--title", help="field to show in place of the id")
    searching.add_argument("--candidates", type=int, default=100, help="how many of the engine's best are re-ranked")
    given = parser.parse_args()

    engine = Engine(given.search, given.search_key)
    with Client(given.service, given.key, timeout=60, patience=1) as client:  # nobody waits long for a list
        if given.command == "make":
            make(client, engine, given.fields)
        else:
            search(client, engine, given.text, given.title, given.candidates)


if __name__ == "__main__":
    try:
        main()
    except (BadInput, httpx.HTTPError) as error:
        sys.exit(f"error: {error}")

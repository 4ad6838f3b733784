"""Re-rank the top k of Elasticsearch or OpenSearch, and learn from the click.

    perturank serve
    python examples/rerank_search.py "red shoes" --search http://127.0.0.1:9200/products --fields price rating

The engine finds the candidates and orders them by its own score; that order is the prior. The ranker starts
from it and departs as clicks teach it. Needs `perturank[service]`.
"""

from __future__ import annotations

import argparse
from typing import Any

import httpx

from perturank import Client

MODEL = "products"


def found(search: str, text: str, fields: list[str], k: int) -> list[dict[str, Any]]:
    """Return the engine's top k, best first."""
    body = {"size": k, "query": {"multi_match": {"query": text}}, "_source": fields}
    answer = httpx.post(f"{search}/_search", json=body, timeout=10).raise_for_status()
    return list(answer.json()["hits"]["hits"])


def document(hit: dict[str, Any], fields: list[str]) -> dict[str, Any]:
    """Return a hit as perturank takes it: its score and its numbers by name; those it lacks are left out."""
    numbers = {field: float(hit["_source"][field]) for field in fields if field in hit["_source"]}
    return {"id": hit["_id"], "prior": hit["_score"], "features": {"score": hit["_score"], **numbers}}


def main() -> None:
    """Search, re-rank, show, and send the click back."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="what to search for")
    parser.add_argument("--search", required=True, help="address of the index")
    parser.add_argument("--fields", nargs="+", default=[], help="numbers of a document that may tell how good it is")
    parser.add_argument("--service", default="http://127.0.0.1:8765", help="address of `perturank serve`")
    parser.add_argument("--key", help="API key, where the service asks for one")
    parser.add_argument("--candidates", type=int, default=100, help="how many of the engine's best are re-ranked")
    given = parser.parse_args()

    hits = found(given.search, given.text, given.fields, given.candidates)
    if not hits:
        print("nothing was found")
        return
    names = ["score", *given.fields]
    with Client(given.service, given.key, timeout=60) as client:
        client.put_model(MODEL, n_features=len(names), features=[{"name": name, "missing": 0.0} for name in names])
        documents = [document(hit, given.fields) for hit in hits]
        shown = client.rank(documents, model=MODEL, query=given.text)
        for place, (name, certain) in enumerate(zip(shown.ids, shown.certain, strict=True), start=1):
            print(f"{place:2} {name}{'' if certain else '  (explored)'}")
        clicked = input("clicked (an id, or nothing): ").strip()
        print(client.feedback(shown.impression, [clicked] if clicked else [], model=MODEL))


if __name__ == "__main__":
    main()

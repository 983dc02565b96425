"""Names keep their codes while the table grows: by many names, by long ones, in one call or in several."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from thence.kernels.name_codes import FEW, Names


@pytest.mark.parametrize("size", [1, 7, 10 * FEW])
def test_codes_count_names_as_they_come(size: int) -> None:
    seed = 7
    print(f"seed {seed}")
    random, names, codes = Random(seed), Names(), dict[str, int]()
    texts = [random.choice([None, "", "long " * 10 * FEW, f"n{random.randrange(5 * FEW)}"]) for _ in range(40 * FEW)]
    for start in range(0, len(texts), size):
        some = texts[start : start + size]
        wanted = [-1 if text is None else codes.setdefault(text, len(codes)) for text in some]
        assert names.codes(pa.array(some, pa.string())).tolist() == wanted
    assert len(names) == len(codes) > 4 * FEW
    assert names.texts().to_pylist() == list(codes)

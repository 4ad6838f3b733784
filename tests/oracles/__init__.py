"""The paper's formulas in plain NumPy: naive, slow, written from the paper and from no implementation."""

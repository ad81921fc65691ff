"""Indicators of NumPy's linear algebra: products, decompositions and solutions."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

FAMILY = {"component": "numpy", "common": {"dtype": "float64"}}
INDICATORS = {
    "matmul": {
        "summary": "Product of two square matrices",
        "unit": "FLOP",
        "common": {"dtype": "float32"},
        "parameters": {
            "size": {"type": "int", "default": 512, "help": "rows and columns of each matrix"},
        },
        "work": "2 * size**3",
    },
    "einsum": {
        "summary": "Sums of products as einsum writes them",
        "unit": "FLOP",
        "common": {"batch": 16},
        "parameters": {
            "kind": {
                "type": "str",
                "default": "product",
                "allowed": ["product", "rows"],
                "help": "product: of each pair of matrices; rows: of each pair of rows",
            },
            "size": {"type": "int", "default": 64, "help": "rows and columns of each matrix"},
        },
        "work": "2 * batch * size ** (2 if kind == 'rows' else 3)",
    },
    "cholesky": {
        "summary": "Cholesky decomposition of a symmetric matrix",
        "unit": "FLOP",
        "parameters": {
            "size": {"type": "int", "default": 512, "help": "rows and columns of the matrix"},
        },
        "work": "size**3 / 3",
    },
    "qr": {
        "summary": "QR decomposition of a square matrix",
        "parameters": {
            "size": {"type": "int", "default": 256, "help": "rows and columns of the matrix"},
        },
    },
    "svd": {
        "summary": "Singular value decomposition of a square matrix",
        "parameters": {
            "size": {"type": "int", "default": 192, "help": "rows and columns of the matrix"},
        },
    },
    "eigh": {
        "summary": "Eigenvalues and eigenvectors of a symmetric matrix",
        "parameters": {
            "size": {"type": "int", "default": 192, "help": "rows and columns of the matrix"},
        },
    },
    "solve": {
        "summary": "Solution of as many linear equations as unknowns",
        "unit": "FLOP",
        "parameters": {
            "size": {"type": "int", "default": 512, "help": "equations and unknowns"},
        },
        "work": "2 * size**3 / 3",
    },
}


def matmul(here, size):
    a, b = here.numbers((size, size), seed=1), here.numbers((size, size), seed=2)
    return here.operation(lambda: here.np.matmul(a, b))


def einsum(here, kind, size, batch):
    a, b = here.numbers((batch, size, size), seed=1), here.numbers((batch, size, size), seed=2)
    form = "bij,bij->bi" if kind == "rows" else "bij,bjk->bik"
    return here.operation(lambda: here.np.einsum(form, a, b))


def cholesky(here, size):
    a = here.numbers((size, size))
    a = a + a.T
    a.flat[:: size + 1] += size  # positive definite, whatever the other numbers are
    return here.operation(lambda: here.np.linalg.cholesky(a))


def qr(here, size):
    a = here.numbers((size, size))

    def whole(found):
        # Rows of the triangle may have either sign.
        orthogonal, triangle = found
        return here.np.concatenate([abs(triangle), here.np.dot(orthogonal, triangle)])

    return here.operation(lambda: here.np.linalg.qr(a), result=whole)


def svd(here, size):
    a = here.numbers((size, size))

    def whole(found):
        # Vectors may have either sign, so what they multiply to is compared.
        left, values, right = found
        return here.np.concatenate([values[None, :], here.np.dot(left * values, right)])

    return here.operation(lambda: here.np.linalg.svd(a), result=whole)


def eigh(here, size):
    a = here.numbers((size, size))
    a = a + a.T

    def whole(found):
        # Vectors may have either sign, so what they multiply to is compared.
        values, vectors = found
        return here.np.concatenate([values[None, :], here.np.dot(vectors * values, vectors.T)])

    return here.operation(lambda: here.np.linalg.eigh(a), result=whole)


def solve(here, size):
    a, b = here.numbers((size, size), seed=1), here.numbers(size, seed=2)
    a.flat[:: size + 1] += size**0.5  # far from singular
    return here.operation(lambda: here.np.linalg.solve(a, b))


if __name__ == "__main__":
    harness.main_table(globals())

"""A slow second opinion, from the definitions: GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1, matrices as lists of rows."""


def product_by_bits(a, b):
    total = 0
    for bit in range(8):
        if b >> bit & 1:
            total ^= a << bit
    for bit in range(14, 7, -1):
        if total >> bit & 1:
            total ^= 0x11D << (bit - 8)
    return total


# Row a holds a times every byte, as bytes.translate takes it.
PRODUCTS = [bytes(product_by_bits(a, b) for b in range(256)) for a in range(256)]


def inverse(a):
    return PRODUCTS[a].index(1)


def power(a, n):
    result = 1
    for _ in range(n):
        result = PRODUCTS[result][a]
    return result


def generator(technique, k, m):
    """The identity above the coding matrix."""
    def cell(row, column):
        if m == 1:
            return 1
        return inverse((k + row) ^ column) if technique == "cauchy" else power(power(2, row), column)

    return [[int(i == j) for j in range(k)] for i in range(k)] + [[cell(r, c) for c in range(k)] for r in range(m)]


def inverted(rows):
    """By Gauss and Jordan."""
    n = len(rows)
    rows = [list(row) + [int(i == j) for j in range(n)] for i, row in enumerate(rows)]
    for column in range(n):
        pivot = next(r for r in range(column, n) if rows[r][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        scale = inverse(rows[column][column])
        rows[column] = [PRODUCTS[scale][cell] for cell in rows[column]]
        for r in range(n):
            factor = rows[r][column]
            if r != column and factor:
                rows[r] = [cell ^ PRODUCTS[factor][above] for cell, above in zip(rows[r], rows[column])]
    return [row[n:] for row in rows]


def combined(row, chunks):
    """The sum of the chunks, each times its cell of the row."""
    total = 0
    for cell, chunk in zip(row, chunks):
        if cell:
            total ^= int.from_bytes(chunk.translate(PRODUCTS[cell]), "little")
    return total.to_bytes(len(chunks[0]), "little")


def encoded(technique, data, m):
    """All k + m chunks."""
    return [combined(row, data) for row in generator(technique, len(data), m)]

"""What NumPy's indicators share: inputs that are equal everywhere, and checksums of results."""

import harness

CHUNK = 1 << 16  # so many at a time, so that making inputs takes little memory beside them


def start(indicator, parameters):
    """Load NumPy; the numbers that are made have the type that the parameters name."""
    return Here(harness.load("numpy"), parameters.get("dtype", "float64"))


def chunks(count):
    """Return the bounds of the pieces in which so many numbers are made or summed."""
    return [(low, min(low + CHUNK, count)) for low in range(0, count, CHUNK)]


class Here:
    """NumPy (``np``), and the type of the numbers (``dtype``)."""

    def __init__(self, np, dtype):
        if not hasattr(np, dtype):
            raise harness.Unsupported("NumPy has no {}".format(dtype))
        self.np, self.dtype = np, np.dtype(dtype)

    def hashed(self, low, high, seed):
        """Return whole numbers below 2**32, without order, one for each from low to high."""
        mask = 2**32 - 1
        found = self.np.arange(low, high, dtype="uint64") * 2654435761 + 40503 * seed & mask
        found = (found ^ found >> 16) * 73244475 & mask
        return found ^ found >> 16

    def integers(self, count, below, seed=1):
        """Return so many indices from 0 on."""
        found = self.np.empty(count, dtype="intp")
        for low, high in chunks(count):
            found[low:high] = self.hashed(low, high, seed) % below
        return found

    def numbers(self, shape, seed=1, shift=0.0):
        """Return numbers from -0.5 to 0.5, shifted: the same in every version, on every machine."""
        found = self.np.empty(shape, dtype=self.dtype)
        flat = found.reshape(-1)
        for low, high in chunks(flat.size):
            flat[low:high] = self.hashed(low, high, seed) / 2.0**32 - 0.5 + shift
        return found

    def operation(self, compute, work=None, result=None):
        """Return the operation that computes so; ``result`` of it is what must not differ."""

        def checksum():
            found = compute()  # again: who kept the last result would keep its memory in use, too
            return self.checksum(found if result is None else result(found))

        if self.dtype == self.np.float16:
            try:
                compute()
            except TypeError as error:  # how NumPy says that it has no loop for this type
                raise harness.Unsupported(str(error))
        return harness.Operation(compute, work=work, checksum=checksum)

    def checksum(self, array):
        """Return a number above zero that depends on each number's size, sign and place."""
        flat, total = self.np.ascontiguousarray(array).reshape(-1), 0.0
        if flat.dtype.kind == "c":
            flat = flat.view(flat.real.dtype)
        for low, high in chunks(flat.size):
            piece = flat[low:high].astype("float64")
            weights = 0.5 + self.hashed(low, high, 7) / 2.0**32
            total += float(((abs(piece) + 0.5 * piece) * weights).sum())
        return total / max(flat.size, 1)

/* The largest code of a row, for one instruction set. */

template <typename S> S largest(const S *x, int64_t cells) {
    S found = x[0];
    for (int64_t k = 1; k < cells; k++)
        found = x[k] > found ? x[k] : found;
    return found;
}

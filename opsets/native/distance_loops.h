/* Rows of codes by how far these lie below the largest, for one instruction set. */

/* The distances, and the largest of them. */
template <typename S> int32_t distances(const S *x, int64_t cells, uint8_t *__restrict found) {
    S top = x[0], least = x[0];
    for (int64_t k = 1; k < cells; k++) {
        top = x[k] > top ? x[k] : top;
        least = x[k] < least ? x[k] : least;
    }
    for (int64_t k = 0; k < cells; k++)
        found[k] = static_cast<uint8_t>(top - x[k]);
    return top - least;
}

inline int64_t sum_of(const int64_t *terms, const uint8_t *places, int64_t count) {
    int64_t found = 0;
    for (int64_t k = 0; k < count; k++)
        found += terms[places[k]];
    return found;
}

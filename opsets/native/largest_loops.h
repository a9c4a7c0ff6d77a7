/* The loops of IntMaxPool, for one instruction set: see int_max_pool.cpp. */

/* The largest of each column of so many rows. */
inline void largest_rows(const int16_t *const *rows, size_t number, int16_t lowest, int64_t count,
                         int16_t *__restrict y) {
    for (int64_t k = 0; k < count; k++)
        y[k] = lowest;
    for (size_t row = 0; row < number; row++) {
        const int16_t *codes = rows[row];
        for (int64_t k = 0; k < count; k++)
            y[k] = codes[k] > y[k] ? codes[k] : y[k];
    }
}

/* The largest of ``rows`` for so many windows, each of several channels, ``step`` apart in them. */
inline void largest_windows(std::vector<const int16_t *> &rows, int16_t lowest, int64_t step,
                            int64_t channels, int64_t count, int16_t *__restrict y) {
    if (step == channels) {
        largest_rows(rows.data(), rows.size(), lowest, count * channels, y);
    } else if (channels == 1) {
        for (int64_t k = 0; k < count; k++)
            y[k] = lowest;
        for (const int16_t *row : rows)
            for (int64_t k = 0; k < count; k++)
                y[k] = row[k * step] > y[k] ? row[k * step] : y[k];
    } else {
        for (int64_t k = 0; k < count; k++) {
            largest_rows(rows.data(), rows.size(), lowest, channels, y + k * channels);
            for (const int16_t *&row : rows)
                row += step;
        }
    }
}

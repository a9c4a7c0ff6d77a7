/* Terms of codes, for one instruction set: see int_rescaled_sums.cpp. */

template <typename Bits>
void add_terms(const int32_t *__restrict terms, const Bits *__restrict codes, int64_t count,
               int32_t *__restrict totals) {
    for (int64_t k = 0; k < count; k++)
        totals[k] += terms[codes[k]];
}

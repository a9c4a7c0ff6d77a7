/* Rows of codes along any axis, of results of any type. */

#pragma once

#include "kernel.h"

#include <algorithm>

namespace qpasses {

/* Calls work(codes, cells, results) for each row of x, codes of type S, side by side, on the
   session's threads. */
template <typename S, typename T, typename Work>
void each_row_of(const Context &context, const Tensor &x, int64_t axis, T *y, Work work) {
    constexpr int64_t WORTH = 4096; /* so many cells are worth a part of their own */
    const size_t place = axis_of(axis, x.shape);
    if (x.size() == 0)
        return;
    const int64_t cells = x.shape[place];
    int64_t inner = 1;
    for (size_t k = place + 1; k < x.shape.size(); k++)
        inner *= x.shape[k];
    const int64_t count = static_cast<int64_t>(x.size()) / cells, least = WORTH / cells + 1;
    context.parallel((count + least - 1) / least, [&](size_t part) {
        std::vector<T> found(inner > 1 ? cells : 0);
        std::vector<S> codes(found.size());
        const int64_t begin = static_cast<int64_t>(part) * least;
        for (int64_t r = begin; r < std::min(count, begin + least); r++) {
            const int64_t start = r / inner * cells * inner + r % inner;
            if (inner == 1) {
                work(x.as<S>() + start, cells, y + start);
                continue;
            }
            for (int64_t k = 0; k < cells; k++)
                codes[k] = x.as<S>()[start + k * inner];
            work(static_cast<const S *>(codes.data()), cells, found.data());
            for (int64_t k = 0; k < cells; k++)
                y[start + k * inner] = found[k];
        }
    });
}

/* The same of codes of 8 bits. */
template <typename T, typename Work>
void each_row(const Context &context, const Tensor &x, int64_t axis, T *y, Work work) {
    of_codes(x.type, "a row", [&](auto code) {
        each_row_of<decltype(code)>(context, x, axis, y, work);
    });
}

} // namespace qpasses

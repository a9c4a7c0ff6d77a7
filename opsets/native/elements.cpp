/* IntAdd, IntSub, IntMul, IntDiv and IntRescale: numbers of one or two tensors, one by one.

   Sums and products of codes by multipliers of 31 bits have less than 52: doubles hold them,
   and what is half of the last of them more or less, so that one rounding to the nearest is
   each of the roundings that round once. */

#include "broadcast.h"
#include "codes.h"
#include "instruction_sets.h"
#include "kernel.h"
#include "kernels.h"
#include "lookups.h"
#include "rescaling.h"
#include "rounding.h"

#include <cmath>

#if QPASSES_SETS > 1
#include <immintrin.h>
#endif

namespace qpasses {
namespace {

/* Less than 2**31 more than this is rounded to an integer, ties to even. */
constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51 */

/* Products of levels and a multiplier up to it are doubles, up to the other one int64. */
constexpr double MOST_IN_DOUBLE = 9007199254740992.0;   /* 2**53 */
constexpr double MOST_IN_INT64 = 4611686018427387904.0; /* 2**62 */

/* Factors in steps of the result, and where its codes end, as levels. */
struct Steps {
    double a, b, offset, low, high, lift, away, a_zero, b_zero;
    int32_t zero;
};

/* A quotient by level 0 times the numerator's, which saturates. */
constexpr double BEYOND = 1 << 17;

/* Of quotients: up from ties above, or down from those below, the other ones go to the even. */
struct Quotients {
    double a_zero, b_zero, factor, low, high, up_above, down_below;
    int32_t zero;
};

/* What stands on a node of products. */
struct LongSteps {
    int64_t a_zero, b_zero, multiplier, shift, zero, low, high;
};

/* Sums of bytes in int32: halves of both multipliers side by side, and what is half of 2**shift
   in the unit that is left of it. Of products: the halves of the one multiplier. */
struct ByteSums {
    Steps steps;
    Rounding rounding;
    int32_t high, low, half;
    int shift;
    int16_t a_zero, b_zero, zero, least, most;
    float sure; /* in float32: what is nearer to an integer is right; 0 where that says nothing */
};

/* By the largest level: float32 has its factors, products and sums to three halves of its last
   bit. */
inline float sure_of(double largest) {
    constexpr double DOUBT = 0.015625, EXACT = 1 << 24;
    const double error = 4 * largest / EXACT;
    return error < DOUBT ? static_cast<float>(0.5 - error) : 0;
}

namespace plain {
#include "element_loops.h"
}
#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
#include "element_loops.h"
#include "avx2_bytes.h"
#include "byte_sums.h"
#include "end_bytes.h"
}
END_SET
BEGIN_AVX512
namespace avx512 {
#include "element_loops.h"
#include "avx512_bytes.h"
#include "byte_sums.h"
#include "avx512_levels.h"
#include "end_bytes.h"
}
END_SET
#endif

template <typename T> using Both = void (*)(const Steps &, const T *, const T *, T *, int64_t);
template <typename A, typename Y>
using One = void (*)(const Steps &, const A *, Y *, int64_t);

double power(int64_t exponent) { return std::ldexp(1.0, static_cast<int>(exponent)); }

/* Where codes end, and how a rounding of quotients by 2**shift is one to the nearest even. */
Steps steps_of(Rounding rounding, int64_t shift, int64_t zero, int64_t low, int64_t high) {
    if (shift < 0 || shift > 62)
        fail("a shift that is not from 0 to 62");
    Steps found = {};
    found.zero = static_cast<int32_t>(zero);
    found.low = static_cast<double>(low - zero);
    found.high = static_cast<double>(high - zero);
    const double half_a_unit = power(-shift - 1);
    found.lift = rounding == Rounding::HALF_UP ? half_a_unit : 0;
    found.away = rounding == Rounding::HALF_AWAY ? half_a_unit : 0;
    return found;
}

/* Runs over rows that one operand repeats, which is copied until it is long: work(run) with
   both from the beginning of what it gets. False where there is no such row. */
template <typename T, typename Work>
bool over_rows(const Context &context, const Broadcast &both, const T *a, const T *b, Work work) {
    constexpr int64_t LONG = 4096;
    const int64_t row = both.row_of_a() + both.row_of_b();
    if (row == 0)
        return false;
    const bool of_b = both.row_of_b() != 0;
    const int64_t block = (LONG + row - 1) / row * row, count = both.count();
    std::vector<T> repeated;
    repeated.reserve(block);
    const T *from = of_b ? b : a;
    for (int64_t k = 0; k < block; k += row)
        repeated.insert(repeated.end(), from, from + row);
    context.parallel((count + block - 1) / block, [&](size_t part) {
        const int64_t begin = static_cast<int64_t>(part) * block;
        const Run run = {0, 0, begin, std::min(block, count - begin), 1, 1};
        work(of_b ? a + begin : repeated.data(), of_b ? repeated.data() : b + begin, run);
    });
    return true;
}

/* What looks at one code is, of many bytes, a table of all codes. */
constexpr int64_t MANY = 1024, CODES = 256;

template <typename X, typename Y>
void of_one(const Steps &given, const X *x, Y *y, int64_t count) {
    const One<X, Y> scaled = BEST(scaled<X, Y>);
    if constexpr (sizeof(X) == 1 && sizeof(Y) == 1)
        if (count >= MANY) {
            X all[CODES];
            Y table[CODES];
            for (int64_t k = 0; k < CODES; k++)
                all[k] = static_cast<X>(static_cast<uint8_t>(k));
            scaled(given, all, table, CODES);
            look_of(chosen_set())(reinterpret_cast<const uint8_t *>(table),
                                  reinterpret_cast<const uint8_t *>(x),
                                  reinterpret_cast<uint8_t *>(y), count);
            return;
        }
    scaled(given, x, y, count);
}

/* Stored numbers of any type as words of 16 bits, a block at a time. */
constexpr int64_t BLOCK = 256;

void widen(const Tensor &given, int64_t from, int64_t count, int16_t *words) {
    of_stored(given.type, "a stored tensor", [&](auto code) {
        const auto *codes = given.as<decltype(code)>() + from;
        for (int64_t k = 0; k < count; k++)
            words[k] = codes[k];
    });
}

void narrow(const int16_t *words, int64_t count, Type type, void *y, int64_t to) {
    of_stored(type, "a stored tensor", [&](auto code) {
        auto *codes = static_cast<decltype(code) *>(y) + to;
        for (int64_t k = 0; k < count; k++)
            codes[k] = static_cast<decltype(code)>(words[k]);
    });
}

/* Operands of any types as words, a block at a time: work(a, b, y, run). */
template <typename Work>
void in_words(const Tensor &a, const Tensor &b, Type type, void *y, Run run, Work work) {
    int16_t first[BLOCK], second[BLOCK], found[BLOCK];
    for (int64_t left = run.count; left > 0; left -= run.count) {
        run.count = std::min(left, BLOCK);
        widen(a, run.a, run.a_step ? run.count : 1, first);
        widen(b, run.b, run.b_step ? run.count : 1, second);
        work(first, second, found, run);
        narrow(found, run.count, type, y, run.y);
        run.a += run.a_step * run.count;
        run.b += run.b_step * run.count;
        run.y += run.count;
    }
}

/* All but the multipliers; the ends of codes are inputs from ``ends`` on. */
template <typename Number>
ByteSums byte_sums_of(const Steps &steps, Rounding rounding, int64_t shift, Number number,
                      size_t ends) {
    ByteSums found = {};
    found.steps = steps;
    found.rounding = rounding;
    found.shift = static_cast<int>(shift - 15);
    found.half = int32_t{1} << (found.shift - 1);
    found.a_zero = static_cast<int16_t>(number(1));
    found.b_zero = static_cast<int16_t>(number(3));
    found.zero = static_cast<int16_t>(steps.zero);
    found.least = static_cast<int16_t>(number(ends));
    found.most = static_cast<int16_t>(number(ends + 1));
    return found;
}

/* Whether x * a + y * b is 2**(shift - 1) modulo 2**shift, half of a step, for some levels of
   bytes: by the inverse of b modulo the power of two that is left. */
bool have_ties(int64_t a, int64_t b, int64_t shift, int64_t a_least, int64_t b_least) {
    if (b == 0 || shift < 16 || shift > 45)
        return true;
    const int zeros = __builtin_ctzll(static_cast<uint64_t>(b));
    const uint64_t odd = static_cast<uint64_t>(b >> zeros);
    const int64_t size = int64_t{1} << std::max<int64_t>(shift - zeros, 0);
    if (size <= 2 * 256)
        return true;
    uint64_t inverse = odd; /* each step doubles the bits that are right */
    for (int k = 0; k < 6; k++)
        inverse *= 2 - odd * inverse;
    for (int64_t x = a_least; x < a_least + 256; x++) {
        const uint64_t wanted = (uint64_t{1} << (shift - 1)) - static_cast<uint64_t>(x * a);
        if (wanted & ((uint64_t{1} << zeros) - 1))
            continue;
        const int64_t y = static_cast<int64_t>(((wanted >> zeros) * inverse) & (size - 1));
        if (y < b_least + 256 || y - size >= b_least)
            return true;
    }
    return false;
}

/* Of a and b, or with sign -1 their difference. */
struct Sum {
    int64_t sign;
    Rounding rounding;
    Constants numbers;

    explicit Sum(const Attributes &given, int64_t sign_of_b = 1)
        : sign(sign_of_b), rounding(rounding_of(given.text("rounding"))), numbers(given, 10) {
        if (!numbers.are_known(1, 1) || !numbers.are_known(3, 9))
            return;
        const auto least = [&](size_t place) {
            return (numbers.at(place).type == INT8 ? -128 : 0) - numbers.at(place).number();
        };
        const bool are_bytes = is_byte(numbers.at(1).type) && is_byte(numbers.at(3).type) &&
                               numbers.at(4).type == INT32 && numbers.at(5).type == INT32;
        if (are_bytes && !have_ties(numbers.at(4).number(), sign * numbers.at(5).number(),
                                    numbers.at(6).number(), least(1), least(3)))
            rounding = Rounding::HALF_UP; /* which needs less, and is the same */
    }

    void run(const Context &context) const {
        const auto number = [&](size_t place) { return numbers(context, place); };
        const auto code_at = [&](size_t place) { return numbers.code(context, place); };
        const Tensor a = context.input(0), b = context.input(2);
        const Type type = numbers.type(context, 7);
        const Broadcast both(a.shape, b.shape);
        void *y = context.output(0, both.shape);
        const int64_t shift = number(6);
        Steps given = steps_of(rounding, shift, code_at(7), code_at(8), code_at(9));
        given.a = std::ldexp(numbers.multiplier(context, 4), -shift);
        given.b = static_cast<double>(sign) * std::ldexp(numbers.multiplier(context, 5), -shift);
        given.offset = -(given.a * code_at(1) + given.b * code_at(3));
        const ByteSums bytes = bytes_of(context, given, shift);
        const bool is_alike = a.type == b.type && a.type == type;
        of_stored(is_alike ? a.type : INT16, "a sum", [&](auto code) {
            using T = decltype(code);
            if (is_alike && over_rows(context, both, a.as<T>(), b.as<T>(),
                                      [&](const T *first, const T *second, const Run &run) {
                                          some<T>(given, first, second,
                                                  static_cast<T *>(y) + run.y, run, bytes);
                                      }))
                return;
            both.runs(context, [&](const Run &run) {
                if (is_alike)
                    some<T>(given, a.as<T>() + run.a, b.as<T>() + run.b,
                            static_cast<T *>(y) + run.y, run, bytes);
                else
                    in_words(a, b, type, y, run, [&](const int16_t *first, const int16_t *second,
                                                     int16_t *found, const Run &part) {
                        some<int16_t>(given, first, second, found, part, {});
                    });
            });
        });
    }

    /* For sums of bytes in int32; their shift is 0 where they have too many bits. */
    ByteSums bytes_of(const Context &context, const Steps &steps, int64_t shift) const {
        ByteSums found = {};
        const int64_t a = numbers(context, 4), b = numbers(context, 5);
        if (shift < 16 || shift > 45 || std::max(std::abs(a), std::abs(b)) >= int64_t{1} << 30)
            return found;
        const auto side_by_side = [](int64_t first, int64_t second) {
            return static_cast<int32_t>(static_cast<uint32_t>(first & 0xffff) |
                                        static_cast<uint32_t>(second & 0xffff) << 16);
        };
        found = byte_sums_of(steps, rounding, shift, [&](size_t place) {
            return numbers(context, place);
        }, 8);
        found.high = side_by_side(a >> 15, static_cast<int32_t>(sign) * (b >> 15));
        found.low = side_by_side(a & 0x7fff, static_cast<int32_t>(sign) * (b & 0x7fff));
        found.sure = sure_of(255 * (std::abs(steps.a) + std::abs(steps.b)) +
                             std::abs(steps.offset) + std::abs(steps.zero));
        return found;
    }

    template <typename T>
    static void some(const Steps &given, const T *a, const T *b, T *y, const Run &run,
                     const ByteSums &bytes) {
        Steps other = given;
        if (run.a_step && run.b_step) {
            both(given, a, b, y, run.count, bytes);
        } else if (run.b_step) {
            other.a = given.b;
            other.offset += given.a * *a;
            of_one(other, b, y, run.count);
        } else {
            other.offset += given.b * *b;
            of_one(other, a, y, run.count);
        }
    }

    template <typename T>
    static void both(const Steps &given, const T *a, const T *b, T *y, int64_t count,
                     const ByteSums &bytes) {
#if QPASSES_SETS > 1
        if constexpr (sizeof(T) == 1)
            if (bytes.shift && chosen_set() != PLAIN) {
                const auto loop =
                    chosen_set() == AVX512 ? avx512::near_bytes<T, true> : avx2::byte_sums<T>;
                loop(bytes, a, b, y, count);
                return;
            }
#endif
        (void)bytes;
        const Both<T> sums = BEST(sums<T>);
        sums(given, a, b, y, count);
    }
};

struct Difference : Sum {
    explicit Difference(const Attributes &given) : Sum(given, -1) {}
};

template <typename T>
void best_products(const ByteSums &bytes, const T *a, const T *b, T *y, int64_t count) {
#if QPASSES_SETS > 1
    const auto loop =
        chosen_set() == AVX512 ? avx512::near_bytes<T, false> : avx2::byte_products<T>;
    loop(bytes, a, b, y, count);
#else
    (void)bytes, (void)a, (void)b, (void)y, (void)count;
#endif
}

struct Product {
    Requantization rounding;
    Constants numbers;

    explicit Product(const Attributes &given)
        : rounding(given.text("rounding")), numbers(given, 9) {}

    enum class Way { IN_DOUBLE, IN_INT64, IN_128_BITS, TWICE };

    /* What stands on a node, and where its products are exact. */
    struct Numbers {
        Steps steps;
        LongSteps longs;
        ByteSums bytes;
        Requantization rounding;
        Rescaling exact;
        Ends ends;
        Way way;
    };

    void run(const Context &context) const {
        const auto code_at = [&](size_t place) { return numbers.code(context, place); };
        const Tensor a = context.input(0), b = context.input(2);
        const Broadcast both(a.shape, b.shape);
        void *y = context.output(0, both.shape);
        const Type type = numbers.type(context, 6);
        const int64_t shift = numbers(context, 5), m = numbers.multiplier(context, 4);
        if (numbers.type(context, 1) != a.type || numbers.type(context, 3) != b.type)
            fail("IntMul: operands of different types");
        const Ends ends(code_at(6), code_at(7), code_at(8));
        Numbers given = {steps_of(rounding.last, shift, ends.zero, ends.low, ends.high),
                         {code_at(1), code_at(3), m, shift, ends.zero, ends.low, ends.high},
                         {},
                         rounding,
                         {AnyRounding(rounding), m, shift},
                         ends,
                         way_of(furthest(a.type, code_at(1)) * furthest(b.type, code_at(3)), m)};
        given.steps.a = std::ldexp(m, -shift);
        given.steps.a_zero = static_cast<double>(code_at(1));
        given.steps.b_zero = static_cast<double>(code_at(3));
        const bool is_alike = a.type == b.type && a.type == type;
        if (is_alike && is_byte(type))
            given.bytes = bytes_of(context, given.steps, m, shift);
        of_stored(is_alike ? type : INT16, "IntMul", [&](auto code) {
            using T = decltype(code);
            const auto alike = [&](const T *first, const T *second, const Run &run) {
                some<T>(given, first, second, static_cast<T *>(y) + run.y, run);
            };
            if (is_alike && over_rows(context, both, a.as<T>(), b.as<T>(), alike))
                return;
            both.runs(context, [&](const Run &run) {
                if (is_alike)
                    alike(a.as<T>() + run.a, b.as<T>() + run.b, run);
                else
                    in_words(a, b, type, y, run, [&](const int16_t *first, const int16_t *second,
                                                     int16_t *found, const Run &part) {
                        some<int16_t>(given, first, second, found, part);
                    });
            });
        });
    }

    /* Of products up to ``reach``; a half of their last bit is one more in double. */
    Way way_of(int64_t reach, int64_t m) const {
        const double largest = static_cast<double>(reach) * std::fabs(static_cast<double>(m));
        if (rounding.is_twice)
            return Way::TWICE;
        if (largest * (rounding.last == Rounding::HALF_TO_EVEN ? 1 : 2) <= MOST_IN_DOUBLE)
            return Way::IN_DOUBLE;
        return largest < MOST_IN_INT64 ? Way::IN_INT64 : Way::IN_128_BITS;
    }

    ByteSums bytes_of(const Context &context, const Steps &steps, int64_t m, int64_t shift) const {
        ByteSums found = {};
#if QPASSES_SETS > 1
        const int64_t largest = 65025 * ((m >> 15) + 1), half = int64_t{1} << ((shift - 16) & 63);
        if (!rounding.is_twice && chosen_set() != PLAIN && m >= 0 && shift >= 16 &&
            shift <= 45 && largest + half < int64_t{1} << 31) {
            /* products of bytes have 16 twos at most, of which a tie needs all but one */
            const int zeros = __builtin_ctzll(static_cast<uint64_t>(m | 1ll << 62));
            const bool ties = shift - 1 - zeros <= 16;
            const Rounding how = ties ? rounding.last : Rounding::HALF_UP;
            found = byte_sums_of(steps, how, shift, [&](size_t place) {
                return numbers(context, place);
            }, 7);
            found.high = static_cast<int32_t>(m >> 15);
            found.low = static_cast<int32_t>(m & 0x7fff);
            found.sure = sure_of(65025 * steps.a + std::abs(steps.zero));
        }
#else
        (void)context, (void)steps, (void)m, (void)shift;
#endif
        return found;
    }

    template <typename T>
    static void some(const Numbers &given, const T *a, const T *b, T *y, const Run &run) {
        if constexpr (sizeof(T) == 1)
            if (given.bytes.shift && run.a_step && run.b_step) {
                best_products<T>(given.bytes, a, b, y, run.count);
                return;
            }
        if (given.way == Way::IN_DOUBLE) {
            some<T>(given.steps, a, b, y, run);
            return;
        }
        if constexpr (sizeof(T) > 1) /* products of bytes are doubles */
            if (given.way == Way::IN_INT64 && run.a_step && run.b_step) {
                long_loop<T>(given.rounding.last)(given.longs, a, b, y, run.count);
                return;
            }
        const LongSteps &of = given.longs;
        const Twice twice = {of.multiplier, of.shift, given.rounding.last, of.zero, of.low, of.high};
        for (int64_t k = 0; k < run.count; k++) {
            const int64_t product =
                (a[k * run.a_step] - of.a_zero) * (b[k * run.b_step] - of.b_zero);
            y[k] = static_cast<T>(given.way == Way::TWICE ? twice(product)
                                                          : given.ends(given.exact(product)));
        }
    }

    template <typename T>
    using Long = void (*)(const LongSteps &, const T *, const T *, T *, int64_t);

    template <typename T> static Long<T> long_loop(Rounding rounding) {
        if (rounding == Rounding::HALF_TO_EVEN)
            return BEST(long_products<T, Rounding::HALF_TO_EVEN>);
        if (rounding == Rounding::HALF_UP)
            return BEST(long_products<T, Rounding::HALF_UP>);
        return BEST(long_products<T, Rounding::HALF_AWAY>);
    }

    template <typename T>
    static void some(const Steps &given, const T *a, const T *b, T *y, const Run &run) {
        const Both<T> products = BEST(products<T>);
        if (run.a_step && run.b_step) {
            products(given, a, b, y, run.count);
            return;
        }
        Steps other = given;
        other.a = run.b_step ? given.a * (*a - given.a_zero) : given.a * (*b - given.b_zero);
        other.offset = -other.a * (run.b_step ? given.b_zero : given.a_zero);
        of_one(other, run.b_step ? b : a, y, run.count);
    }
};

struct Quotient {
    Rounding rounding;
    Constants numbers;

    explicit Quotient(const Attributes &given)
        : rounding(rounding_of(given.text("rounding"))), numbers(given, 9) {}

    void run(const Context &context) const {
        constexpr int64_t IN_DOUBLE = int64_t{1} << (53 - 16); /* opsets/division.py */
        const auto code_at = [&](size_t place) { return numbers.code(context, place); };
        const Tensor a = context.input(0), b = context.input(2);
        const Broadcast both(a.shape, b.shape);
        void *y = context.output(0, both.shape);
        const Type type = numbers.type(context, 6);
        const int64_t shift = numbers(context, 5), m = numbers.multiplier(context, 4);
        must_be_from(shift, 1, 46, "a shift");
        must_be_from(m, 0, 0x7fffffff, "a multiplier");
        if (numbers.type(context, 1) != a.type || numbers.type(context, 3) != b.type)
            fail("IntDiv: operands of different types");
        const int64_t a_zero = code_at(1), b_zero = code_at(3);
        const Ends ends(code_at(6), code_at(7), code_at(8));
        constexpr double ALL = 1 << 20;
        const Quotients given = {
            static_cast<double>(a_zero),
            static_cast<double>(b_zero),
            std::ldexp(static_cast<double>(m), static_cast<int>(-shift)),
            static_cast<double>(ends.low - ends.zero),
            static_cast<double>(ends.high - ends.zero),
            rounding == Rounding::HALF_TO_EVEN ? ALL : rounding == Rounding::HALF_UP ? -ALL : 0,
            rounding == Rounding::HALF_AWAY ? 0 : -ALL,
            static_cast<int32_t>(ends.zero)};
        const bool fits = furthest(b.type, b_zero) << shift < IN_DOUBLE;
        both.runs(context, [&](const Run &run) {
            in_words(a, b, type, y, run, [&](int16_t *first, int16_t *second, int16_t *found,
                                             const Run &part) {
                if (!part.a_step)
                    std::fill(first, first + part.count, first[0]);
                if (!part.b_step)
                    std::fill(second, second + part.count, second[0]);
                if (fits)
                    return BEST(quotients)(given, first, second, found, part.count);
                for (int64_t k = 0; k < part.count; k++) {
                    const int64_t level = first[k] - a_zero, divisor = second[k] - b_zero;
                    const int64_t size = std::abs(divisor) << shift;
                    found[k] = static_cast<int16_t>(
                        ends(!divisor ? level * static_cast<int64_t>(BEYOND)
                                      : divided((divisor < 0 ? -level : level) * m, size,
                                                rounding)));
                }
            });
        });
    }
};

struct IntRescale {
    Requantization rounding;
    Constants numbers;

    explicit IntRescale(const Attributes &given)
        : rounding(given.text("rounding")), numbers(given, 7) {}

    void run(const Context &context) const {
        const auto number = [&](size_t place) { return numbers(context, place); };
        const auto code_at = [&](size_t place) { return numbers.code(context, place); };
        const Tensor x = context.input(0);
        void *y = context.output(0, x.shape);
        const int64_t shift = number(3), m = numbers.multiplier(context, 2), x_zero = code_at(1);
        Steps given = steps_of(rounding.last, shift, code_at(4), code_at(5), code_at(6));
        given.a = std::ldexp(m, -shift);
        given.offset = -given.a * x_zero;
        const Twice twice = {m, shift, rounding.last, code_at(4), code_at(5), code_at(6)};
        of_stored(x.type, "IntRescale", [&](auto code) {
            of_stored(numbers.type(context, 4), "IntRescale", [&](auto result) {
                using X = decltype(code);
                using Y = decltype(result);
                const Broadcast whole(x.shape, {});
                whole.runs(context, [&](const Run &run) {
                    const X *from = x.as<X>() + run.a;
                    Y *found = static_cast<Y *>(y) + run.y;
                    if (!rounding.is_twice)
                        of_one(given, from, found, run.count);
                    else
                        for (int64_t k = 0; k < run.count; k++)
                            found[k] = static_cast<Y>(twice(from[k] - x_zero));
                });
            });
        });
    }
};

} // namespace

const Kernel INT_ADD = broadcasting<Sum>("IntAdd", 10, 7, 2);
const Kernel INT_SUB = broadcasting<Difference>("IntSub", 10, 7, 2);
const Kernel INT_MUL = broadcasting<Product>("IntMul", 9, 6, 2);
const Kernel INT_DIV = broadcasting<Quotient>("IntDiv", 9, 6, 2);
const Kernel INT_RESCALE = kernel<IntRescale>("IntRescale", 7, 4);

} // namespace qpasses

/* IntAdd, IntSub, IntMul and IntRescale: numbers of one or two tensors, one by one.

   Sums and products of codes by multipliers of 31 bits have less than 52: doubles hold them,
   and what is half of the last of them more or less, so that one rounding to the nearest is
   each of the roundings that round once. */

#include "broadcast.h"
#include "instruction_sets.h"
#include "kernel.h"
#include "kernels.h"
#include "rounding.h"

#include <cmath>

namespace qpasses {
namespace {

/* Less than 2**31 more than this is rounded to an integer, ties to even. */
constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51 */

/* Factors in steps of the result, and where its codes end, as levels. */
struct Steps {
    double a, b, offset, low, high, lift, away, a_zero, b_zero;
    int32_t zero;
};

namespace plain {
#include "element_loops.h"
}
#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
#include "element_loops.h"
}
END_SET
BEGIN_AVX512
namespace avx512 {
#include "element_loops.h"
}
END_SET
#endif

template <typename A, typename B, typename Y>
using Both = void (*)(const Steps &, const A *, const B *, Y *, int64_t);
template <typename A, typename Y>
using One = void (*)(const Steps &, const A *, Y *, int64_t);

double power(int64_t exponent) { return std::ldexp(1.0, static_cast<int>(exponent)); }

/* Where codes end, and how a rounding of quotients by 2**shift is one to the nearest even. */
Steps steps_of(Rounding rounding, int64_t shift, const Tensor &zero, const Tensor &low,
               const Tensor &high) {
    Steps found = {};
    found.zero = static_cast<int32_t>(zero.number());
    found.low = static_cast<double>(low.number() - found.zero);
    found.high = static_cast<double>(high.number() - found.zero);
    const double half_a_unit = power(-shift - 1);
    found.lift = rounding == Rounding::HALF_UP ? half_a_unit : 0;
    found.away = rounding == Rounding::HALF_AWAY ? half_a_unit : 0;
    return found;
}

/* Codes of three types that a kernel takes, by numbers of them. */
template <typename Work>
void of_three(const char *what, Type a, Type b, Type y, Work work) {
    of_stored(a, what, [&](auto first) {
        of_stored(b, what, [&](auto second) {
            of_stored(y, what, [&](auto result) { work(first, second, result); });
        });
    });
}

template <int SIGN> struct Sum {
    Rounding rounding;

    explicit Sum(const Attributes &given) : rounding(rounding_of(given.text("rounding"))) {}

    void run(const Context &context) const {
        const Tensor a = context.input(0), b = context.input(2), zero = context.input(7);
        const Broadcast both(a.shape, b.shape);
        void *y = context.output(0, both.shape);
        const int64_t shift = context.input(6).number();
        Steps given = steps_of(rounding, shift, zero, context.input(8), context.input(9));
        given.a = std::ldexp(context.input(4).number(), -shift);
        given.b = SIGN * std::ldexp(context.input(5).number(), -shift);
        given.offset = -(given.a * context.input(1).number() + given.b * context.input(3).number());
        of_three(SIGN > 0 ? "IntAdd" : "IntSub", a.type, b.type, zero.type,
                 [&](auto first, auto second, auto result) {
                     using A = decltype(first);
                     using B = decltype(second);
                     using Y = decltype(result);
                     both.runs(context, [&](const Run &run) {
                         some<A, B, Y>(given, a.as<A>() + run.a, b.as<B>() + run.b,
                                       static_cast<Y *>(y) + run.y, run);
                     });
                 });
    }

    template <typename A, typename B, typename Y>
    static void some(const Steps &given, const A *a, const B *b, Y *y, const Run &run) {
        const Both<A, B, Y> sums = BEST(sums<A, B, Y>);
        Steps other = given;
        if (run.a_step && run.b_step) {
            sums(given, a, b, y, run.count);
        } else if (run.b_step) {
            const One<B, Y> scaled = BEST(scaled<B, Y>);
            other.a = given.b;
            other.offset += given.a * *a;
            scaled(other, b, y, run.count);
        } else {
            const One<A, Y> scaled = BEST(scaled<A, Y>);
            other.offset += given.b * *b;
            scaled(other, a, y, run.count);
        }
    }
};

/* A rounding in one step, or TFLite's in two. */
struct Requantization {
    bool is_twice;
    Rounding last;

    explicit Requantization(const std::string &name)
        : is_twice(name == "tflite_double" || name == "ruy"),
          last(name == "tflite_double" ? Rounding::HALF_AWAY
               : name == "ruy"         ? Rounding::HALF_UP
                                       : rounding_of(name)) {}
};

struct Product {
    Requantization rounding;

    explicit Product(const Attributes &given) : rounding(given.text("rounding")) {}

    void run(const Context &context) const {
        const Tensor a = context.input(0), b = context.input(2), zero = context.input(6);
        const Broadcast both(a.shape, b.shape);
        void *y = context.output(0, both.shape);
        const int64_t shift = context.input(5).number(), m = context.input(4).number();
        Steps given = steps_of(rounding.last, shift, zero, context.input(7), context.input(8));
        given.a = std::ldexp(m, -shift);
        given.a_zero = context.input(1).number();
        given.b_zero = context.input(3).number();
        const Twice twice = {m, shift, rounding.last, zero.number(), context.input(7).number(),
                             context.input(8).number()};
        of_codes(a.type, "IntMul", [&](auto code) {
            using T = decltype(code);
            both.runs(context, [&](const Run &run) {
                const T *first = a.as<T>() + run.a, *second = b.as<T>() + run.b;
                T *found = static_cast<T *>(y) + run.y;
                if (rounding.is_twice)
                    for (int64_t k = 0; k < run.count; k++)
                        found[k] = static_cast<T>(
                            twice((first[k * run.a_step] - static_cast<int64_t>(given.a_zero)) *
                                  (second[k * run.b_step] - static_cast<int64_t>(given.b_zero))));
                else
                    some<T>(given, first, second, found, run);
            });
        });
    }

    template <typename T>
    static void some(const Steps &given, const T *a, const T *b, T *y, const Run &run) {
        const Both<T, T, T> products = BEST(products<T, T, T>);
        const One<T, T> scaled = BEST(scaled<T, T>);
        if (run.a_step && run.b_step) {
            products(given, a, b, y, run.count);
            return;
        }
        Steps other = given;
        other.a = run.b_step ? given.a * (*a - given.a_zero) : given.a * (*b - given.b_zero);
        other.offset = -other.a * (run.b_step ? given.b_zero : given.a_zero);
        scaled(other, run.b_step ? b : a, y, run.count);
    }
};

struct IntRescale {
    Requantization rounding;

    explicit IntRescale(const Attributes &given) : rounding(given.text("rounding")) {}

    void run(const Context &context) const {
        const Tensor x = context.input(0), zero = context.input(4);
        void *y = context.output(0, x.shape);
        const int64_t shift = context.input(3).number(), m = context.input(2).number();
        const int64_t x_zero = context.input(1).number();
        Steps given = steps_of(rounding.last, shift, zero, context.input(5), context.input(6));
        given.a = std::ldexp(m, -shift);
        given.offset = -given.a * x_zero;
        const Twice twice = {m, shift, rounding.last, zero.number(), context.input(5).number(),
                             context.input(6).number()};
        of_stored(x.type, "IntRescale", [&](auto code) {
            of_stored(zero.type, "IntRescale", [&](auto result) {
                using X = decltype(code);
                using Y = decltype(result);
                const One<X, Y> scaled = BEST(scaled<X, Y>);
                const Broadcast whole(x.shape, {});
                whole.runs(context, [&](const Run &run) {
                    const X *from = x.as<X>() + run.a;
                    Y *found = static_cast<Y *>(y) + run.y;
                    if (!rounding.is_twice)
                        scaled(given, from, found, run.count);
                    else
                        for (int64_t k = 0; k < run.count; k++)
                            found[k] = static_cast<Y>(twice(from[k] - x_zero));
                });
            });
        });
    }
};

} // namespace

const Kernel INT_ADD = broadcasting<Sum<1>>("IntAdd", 10, 7, 2);
const Kernel INT_SUB = broadcasting<Sum<-1>>("IntSub", 10, 7, 2);
const Kernel INT_MUL = broadcasting<Product>("IntMul", 9, 6, 2);
const Kernel INT_RESCALE = kernel<IntRescale>("IntRescale", 7, 4);

} // namespace qpasses

/* What a kernel sees: tensors, attributes, and the session's threads. */

#pragma once

#include "inference.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace qpasses {

using Integers = std::vector<int64_t>;

/* Sizes of the axes of a tensor, which need no memory of their own. */
class Shape {
  public:
    Shape() = default;
    Shape(std::initializer_list<int64_t> sizes) : Shape(sizes.begin(), sizes.end()) {}
    explicit Shape(size_t rank) : rank_(must_be_a_rank(rank)) {}

    template <typename From> Shape(From first, From last) {
        for (; first != last; ++first)
            push_back(*first);
    }

    void push_back(int64_t size) {
        must_be_a_rank(rank_ + 1);
        sizes_[rank_++] = size;
    }

    size_t size() const { return rank_; }
    bool empty() const { return rank_ == 0; }
    const int64_t *data() const { return sizes_; }
    const int64_t *begin() const { return sizes_; }
    const int64_t *end() const { return sizes_ + rank_; }
    int64_t &operator[](size_t axis) { return sizes_[axis]; }
    int64_t operator[](size_t axis) const { return sizes_[axis]; }
    int64_t &back() { return sizes_[rank_ - 1]; }
    int64_t back() const { return sizes_[rank_ - 1]; }
    bool operator==(const Shape &other) const {
        return std::equal(begin(), end(), other.begin(), other.end());
    }
    bool operator!=(const Shape &other) const { return !(*this == other); }

  private:
    size_t rank_ = 0;
    int64_t sizes_[MOST_AXES] = {};

    static size_t must_be_a_rank(size_t rank) {
        if (rank > MOST_AXES)
            fail("a tensor has more than 16 axes");
        return rank;
    }
};

/* What an op of a node says beside its inputs. */
struct Attributes {
    const Api *api;
    const void *info;

    QPASSES_ONCE int64_t integer(const char *name) const {
        int64_t found = 0;
        check(api, call<const void *, const char *, int64_t *>(api, INTEGER_ATTRIBUTE, info, name,
                                                               &found));
        return found;
    }

    QPASSES_ONCE int64_t integer_or(const char *name, int64_t usual) const {
        int64_t found = 0;
        const bool is_there =
            is_done(api, call<const void *, const char *, int64_t *>(api, INTEGER_ATTRIBUTE, info,
                                                                     name, &found));
        return is_there ? found : usual;
    }

    QPASSES_ONCE Integers integers(const char *name) const {
        size_t count = 0;
        Status first = call<const void *, const char *, int64_t *, size_t *>(
            api, INTEGERS_ATTRIBUTE, info, name, nullptr, &count);
        check(api, first);
        Integers found(count);
        check(api, call<const void *, const char *, int64_t *, size_t *>(
                       api, INTEGERS_ATTRIBUTE, info, name, found.data(), &count));
        return found;
    }

    QPASSES_ONCE Integers integers_or_none(const char *name) const {
        size_t count = 0;
        Status first = call<const void *, const char *, int64_t *, size_t *>(
            api, INTEGERS_ATTRIBUTE, info, name, nullptr, &count);
        return is_done(api, first) ? integers(name) : Integers();
    }

    QPASSES_ONCE std::string text_or(const char *name, const char *usual) const {
        size_t size = 0;
        Status first = call<const void *, const char *, char *, size_t *>(api, STRING_ATTRIBUTE,
                                                                          info, name, nullptr, &size);
        return is_done(api, first) ? text(name) : usual;
    }

    QPASSES_ONCE std::string text(const char *name) const {
        size_t size = 0;
        Status first = call<const void *, const char *, char *, size_t *>(api, STRING_ATTRIBUTE,
                                                                          info, name, nullptr, &size);
        check(api, first);
        std::string found(size, '\0');
        check(api, call<const void *, const char *, char *, size_t *>(
                       api, STRING_ATTRIBUTE, info, name, found.data(), &size));
        found.resize(size ? size - 1 : 0); /* its end is a zero */
        return found;
    }
};

struct Tensor {
    const void *data;
    Type type;
    Shape shape;

    size_t size() const {
        size_t product = 1;
        for (int64_t each : shape)
            product *= static_cast<size_t>(each);
        return product;
    }

    template <typename T> const T *as() const { return static_cast<const T *>(data); }

    /* Its one number, of a stored integer. */
    QPASSES_ONCE int64_t number() const {
        if (size() != 1)
            fail("one number is expected, not several or none");
        switch (type) {
        case UINT8:
            return *as<uint8_t>();
        case INT8:
            return *as<int8_t>();
        case INT16:
            return *as<int16_t>();
        case INT32:
            return *as<int32_t>();
        case INT64:
            return *as<int64_t>();
        default:
            fail("a number of a type that no op has");
        }
    }
};

QPASSES_ONCE inline Tensor tensor_of(const Api *api, const void *value) {
    const int64_t *sizes = nullptr;
    size_t rank = 0;
    int type = 0;
    void *data = nullptr;
    check(api, call<const void *, int *, const int64_t **, size_t *>(api, TYPE_AND_SIZES, value,
                                                                     &type, &sizes, &rank));
    check(api, call<const void *, void **>(api, TENSOR_DATA, value, &data));
    return {data, static_cast<Type>(type), Shape(sizes, sizes + rank)};
}

/* Calls work with a number of the type of codes of 8 bits, or with words too of 16. */
template <typename Work> void of_codes(Type type, const char *what, Work work) {
    if (type == UINT8)
        work(uint8_t{});
    else if (type == INT8)
        work(int8_t{});
    else
        fail(what, " has a type that the kernel has not");
}

inline void must_be_codes(const Tensor &tensor, const char *what) {
    of_codes(tensor.type, what, [](auto) {});
}

template <typename Work> void of_stored(Type type, const char *what, Work work) {
    if (type == INT16)
        work(int16_t{});
    else
        of_codes(type, what, work);
}

/* The same where bytes are only written, of which the sign does not matter. */
template <typename Work> void of_bits(Type type, const char *what, Work work) {
    if (type == INT16)
        return work(int16_t{});
    if (type != UINT8 && type != INT8)
        fail(what, " has a type that the kernel has not");
    work(uint8_t{});
}

/* Codes that are read and written have one type of 8 bits, or either has words. */
inline void must_be_ends(Type read, Type written, const char *what) {
    if (read != written && read != INT16 && written != INT16)
        fail(std::string(what) + " has results of another type");
}

/* What is called, by reference: it lives as long as the call that it is given to. */
template <typename... Given> class Call {
  public:
    template <typename Work>
    Call(const Work &work)
        : work_(&work), run_([](const void *each, Given... given) {
              (*static_cast<const Work *>(each))(given...);
          }) {}

    void operator()(Given... given) const { run_(work_, given...); }

  private:
    const void *work_;
    void (*run_)(const void *, Given...);
};

struct Kernel;

/* One call of a kernel. */
struct Context {
    const Api *api;
    void *context;
    const Kernel *kernel;

    QPASSES_ONCE Tensor input(size_t place) const {
        const void *value = nullptr;
        check(api, call<const void *, size_t, const void **>(api, GET_INPUT, context, place, &value));
        return tensor_of(api, value);
    }

    QPASSES_ONCE void *output(size_t place, const Shape &shape) const {
        void *value = nullptr, *data = nullptr;
        check(api, call<void *, size_t, const int64_t *, size_t, void **>(
                       api, GET_OUTPUT, context, place, shape.data(), shape.size(), &value));
        must_be_typed(place, value);
        check(api, call<const void *, void **>(api, TENSOR_DATA, value, &data));
        return data;
    }

    /* An output has the type of an input, as a kernel writes it: where its rank is not known
       onnxruntime took another one's. */
    void must_be_typed(size_t place, const void *value) const;

    /* Runs work(part) for parts from 0 on, on the threads of the session if there are several. */
    QPASSES_ONCE void parallel(size_t parts, Call<size_t> work) const {
        if (parts == 0)
            return;
        if (parts == 1) {
            work(0);
            return;
        }
        struct Shared {
            Call<size_t> work;
            std::mutex alone;
            std::exception_ptr error; /* which must not go through onnxruntime */
        } shared = {work, {}, nullptr};
        void (*run)(void *, size_t) = [](void *data, size_t part) {
            Shared &given = *static_cast<Shared *>(data);
            try {
                given.work(part);
            } catch (...) {
                const std::lock_guard<std::mutex> guard(given.alone);
                given.error = std::current_exception();
            }
        };
        check(api, call<const void *, void (*)(void *, size_t), size_t, size_t, void *>(
                       api, PARALLEL_FOR, context, run, parts, size_t{0}, &shared));
        if (shared.error)
            std::rethrow_exception(shared.error);
    }
};

inline void must_be_from(int64_t number, int64_t low, int64_t high, const char *what) {
    if (number < low || number > high)
        fail(what, " is out of its range");
}

/* The inputs of a node that are constant, which those of files are. */
class Constants {
  public:
    QPASSES_ONCE Constants(const Attributes &given, size_t count)
        : found_(count), is_known_(count) {
        for (size_t k = 0; k < count; k++) {
            const void *value = nullptr;
            int is_constant = 0;
            check(given.api,
                  call<const void *, size_t, int *, const void **>(
                      given.api, CONSTANT_INPUT, given.info, k, &is_constant, &value));
            is_known_[k] = is_constant && value;
            if (is_known_[k])
                found_[k] = tensor_of(given.api, value);
        }
    }

    bool are_known(size_t first, size_t last) const {
        for (size_t k = first; k <= last; k++)
            if (!is_known_[k])
                return false;
        return true;
    }

    const Tensor &at(size_t place) const { return found_[place]; }

    QPASSES_ONCE int64_t operator()(const Context &context, size_t place) const {
        return is_known_[place] ? found_[place].number() : context.input(place).number();
    }

    /* A zero point or an end of codes. */
    QPASSES_ONCE int64_t code(const Context &context, size_t place) const {
        const int64_t found = (*this)(context, place);
        must_be_from(found, -0x8000, 0x7fff, "a zero point or an end of codes");
        return found;
    }

    QPASSES_ONCE int64_t multiplier(const Context &context, size_t place) const {
        const int64_t found = (*this)(context, place);
        must_be_from(found, -0x80000000LL, 0x7fffffff, "a multiplier");
        return found;
    }

    QPASSES_ONCE Tensor tensor(const Context &context, size_t place) const {
        return is_known_[place] ? found_[place] : context.input(place);
    }

    QPASSES_ONCE Type type(const Context &context, size_t place) const {
        return is_known_[place] ? found_[place].type : context.input(place).type;
    }

  private:
    std::vector<Tensor> found_;
    std::vector<bool> is_known_;
};

/* An axis of a tensor, counted from its end if it is negative. */
QPASSES_ONCE inline size_t axis_of(int64_t axis, const Shape &shape) {
    const int64_t rank = static_cast<int64_t>(shape.size());
    if (axis < -rank || axis >= rank)
        fail("an axis that the tensor has not");
    return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

/* How many numbers lie behind an axis. */
inline int64_t inner_of(const Shape &shape, size_t axis) {
    int64_t found = 1;
    for (size_t k = axis + 1; k < shape.size(); k++)
        found *= shape[k];
    return found;
}

/* An op of the domain: how many inputs it has, and which has the type of the output. Its shape
   is that of the first, or of the first and another broadcast together. Further outputs are
   states, [1, batch, units] where the first has [steps, 1, batch, units]. */
struct Kernel {
    const char *name;
    size_t inputs, typed_as, other;
    void (*shape)(const Inference &, Sizes &); /* from that of the first, or none */
    void *(*create)(const Attributes &);
    void (*compute)(const void *state, const Context &);
    void (*destroy)(void *state);
    size_t states[2]; /* which inputs have their types, or nothing */

    size_t outputs() const { return 1 + !!states[0] + !!states[1]; }
};

QPASSES_ONCE inline void Context::must_be_typed(size_t place, const void *value) const {
    const void *typed = nullptr;
    const size_t as = place ? kernel->states[place - 1] : kernel->typed_as;
    check(api, call<const void *, size_t, const void **>(api, GET_INPUT, context, as, &typed));
    int types[2] = {}, *type = types;
    for (const void *each : {value, typed}) {
        const int64_t *sizes = nullptr;
        size_t rank = 0;
        check(api, call<const void *, int *, const int64_t **, size_t *>(
                       api, TYPE_AND_SIZES, each, type++, &sizes, &rank));
    }
    if (types[0] != types[1])
        fail(kernel->name, ": an output whose rank is not known has another type than its ends");
}

/* An op of one output; the input ``other`` is broadcast with the first. State reads Attributes
   and has run(Context). */
template <typename State>
constexpr Kernel broadcasting(const char *name, size_t inputs, size_t typed_as, size_t other) {
    return {name, inputs, typed_as, other, nullptr,
            [](const Attributes &given) -> void * { return new State(given); },
            [](const void *state, const Context &context) {
                static_cast<const State *>(state)->run(context);
            },
            [](void *state) { delete static_cast<State *>(state); }, {}};
}

/* One whose shape State says itself. */
template <typename State>
constexpr Kernel shaping(const char *name, size_t inputs, size_t typed_as) {
    Kernel found = broadcasting<State>(name, inputs, typed_as, 0);
    found.shape = State::shape;
    return found;
}

/* One that gives last states too, of the types of these inputs. */
template <typename State>
constexpr Kernel recurrent(const char *name, size_t inputs, size_t typed_as, size_t state,
                           size_t other = 0) {
    Kernel found = shaping<State>(name, inputs, typed_as);
    found.states[0] = state;
    found.states[1] = other;
    return found;
}

/* The same, shaped as the first. */
template <typename State>
constexpr Kernel kernel(const char *name, size_t inputs, size_t typed_as) {
    return broadcasting<State>(name, inputs, typed_as, 0);
}

} // namespace qpasses

/* What is known of shapes before a model runs. */

#pragma once

#include "interface.h"

#include <stdexcept>
#include <string>
#include <vector>

/* What is called once for a node or a tensor is in one place, not in every kernel. */
#define QPASSES_ONCE __attribute__((noinline))

namespace qpasses {

[[noreturn]] __attribute__((noinline, cold)) inline void fail(const char *what) {
    throw std::runtime_error(what);
}

[[noreturn]] __attribute__((noinline, cold)) inline void fail(const std::string &what) {
    throw std::runtime_error(what);
}

[[noreturn]] __attribute__((noinline, cold)) inline void fail(const char *what,
                                                              const char *why) {
    throw std::runtime_error(std::string(what) + why);
}

QPASSES_ONCE inline bool is_done(const Api *api, Status status) {
    if (status)
        reinterpret_cast<void (*)(Status)>(api->functions[RELEASE_STATUS])(status);
    return !status;
}

QPASSES_ONCE inline void check(const Api *api, Status status) {
    if (!is_done(api, status))
        fail("onnxruntime refuses a call");
}

/* Sizes as far as they are known: -1, and a name where there is one. */
struct Sizes {
    size_t rank = 0;
    bool is_known = true; /* the rank */
    int64_t numbers[MOST_AXES] = {};
    const char *names[MOST_AXES] = {};

    /* These and others, broadcast together: a size that is not 1 is that of both. */
    QPASSES_ONCE void join(const Sizes &other) {
        const Sizes given = rank < other.rank ? *this : other;
        if (rank < other.rank)
            *this = other;
        is_known = is_known && given.is_known;
        for (size_t k = 0; k < given.rank; k++) {
            const size_t at = rank - given.rank + k;
            if (numbers[at] == 1 || (numbers[at] < 0 && given.numbers[k] > 1)) {
                numbers[at] = given.numbers[k];
                names[at] = given.names[k];
            }
        }
    }
};

/* What a kernel may ask of a node. */
struct Inference {
    const Api *api;
    void *context;

    /* onnxruntime tells a number from a tensor of unknown rank nowhere: it shows both without an
       axis, and TensorTypeAndShape_HasShape is true of both. So neither has a rank that is
       known. */
    QPASSES_ONCE Sizes input(size_t place) const {
        Sizes found;
        void *shape = nullptr;
        check(api, call<void *, size_t, void **>(api, INFERENCE_INPUT, context, place, &shape));
        check(api, call<const void *, size_t *>(api, DIMENSIONS_COUNT, shape, &found.rank));
        found.is_known = found.rank != 0;
        if (found.rank > MOST_AXES)
            fail("a tensor has more than 16 axes");
        check(api, call<const void *, int64_t *, size_t>(api, DIMENSIONS, shape, found.numbers,
                                                         found.rank));
        check(api, call<const void *, const char **, size_t>(api, SYMBOLIC_DIMENSIONS, shape,
                                                             found.names, found.rank));
        return found;
    }

    int64_t integer(const char *name) const {
        int64_t found = 0;
        read(name, INTEGER, &found, 1);
        return found;
    }

    int64_t integer_or(const char *name, int64_t usual) const {
        return attribute(name) ? integer(name) : usual;
    }

    QPASSES_ONCE std::vector<int64_t> integers(const char *name) const {
        std::vector<int64_t> found(2 * MOST_AXES);
        found.resize(read(name, INTEGERS, found.data(), found.size()));
        return found;
    }

    std::vector<int64_t> integers_or_none(const char *name) const {
        return attribute(name) ? integers(name) : std::vector<int64_t>();
    }

    QPASSES_ONCE std::string text_or(const char *name, const char *usual) const {
        char found[MOST_AXES] = {};
        return attribute(name) ? std::string(found, read(name, TEXT, found, sizeof found)) : usual;
    }

  private:
    enum Kind { INTEGER = 1, INTEGERS = 2, TEXT = 5 };

    /* None where the node has it not. */
    const void *attribute(const char *name) const {
        const void *found = nullptr;
        const bool is_there =
            is_done(api, call<void *, const char *, const void **>(api, INFERENCE_ATTRIBUTE,
                                                                   context, name, &found));
        return is_there ? found : nullptr;
    }

    /* So many numbers or letters of an attribute. */
    template <typename T>
    QPASSES_ONCE size_t read(const char *name, Kind kind, T *found, size_t most) const {
        const void *given = attribute(name);
        if (!given)
            fail("an attribute is missing");
        size_t bytes = 0;
        check(api, call<const void *, int, void *, size_t, size_t *>(
                       api, READ_ATTRIBUTE, given, kind, found, most * sizeof(T), &bytes));
        return bytes / sizeof(T);
    }
};

} // namespace qpasses

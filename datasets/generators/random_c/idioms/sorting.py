"""Idioms of order: sorting, searching, heaps."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Array, Function, Place, scalar_parameter
from aiocg.datasets.generators.random_c.types import F64, I16, I32, I64, U8, U16, U32, U64, Scalar

__all__ = ["IDIOMS"]

_ELEMENTS: tuple[Scalar, ...] = (I16, I32, I32, I64, U8, U16, U32, U64, F64)


def _simple_sort(kit: Kit) -> Function:
    """Insertion, selection, bubble or Shell's sort."""
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(26, power=2)
    insertion = """
    $head
    {
        for (int32_t i = 1; i < count; i++) {
            $T key = data[i];
            int32_t j = i - 1;
            while (j >= 0 && data[j] $after key) {
                data[j + 1] = data[j];
                j--;
            }
            data[j + 1] = key;
        }
        return data[count / 2];
    }
    """
    selection = """
    $head
    {
        for (int32_t i = 0; i + 1 < count; i++) {
            int32_t first = i;
            for (int32_t j = i + 1; j < count; j++) {
                if (data[first] $after data[j])
                    first = j;
            }
            $T swap = data[i];
            data[i] = data[first];
            data[first] = swap;
        }
        return data[count - 1];
    }
    """
    bubble = """
    $head
    {
        int32_t swapped;
        int32_t last = count - 1;
        do {
            swapped = 0;
            for (int32_t i = 0; i < last; i++) {
                if (data[i] $after data[i + 1]) {
                    $T swap = data[i];
                    data[i] = data[i + 1];
                    data[i + 1] = swap;
                    swapped = 1;
                }
            }
            last--;
        } while (swapped);
        return data[0];
    }
    """
    shell = """
    $head
    {
        for (int32_t gap = count / 2; gap > 0; gap /= 2) {
            for (int32_t i = gap; i < count; i++) {
                $T key = data[i];
                int32_t j = i;
                for (; j >= gap && data[j - gap] $after key; j -= gap)
                    data[j] = data[j - gap];
                data[j] = key;
            }
        }
        return data[count / 3];
    }
    """
    template = kit.pick(insertion, selection, bubble, shell)
    parameters = [Array("data", kind, (length,)), scalar_parameter("count", I32, 1, length)]
    return kit.define("sort", kind, parameters, 26 * length**2, template, after=kit.pick(">", "<"))


def _quicksort(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(40, power=2)
    template = """
    static void $sort($T *data, int32_t low, int32_t high)
    {
        if (low >= high)
            return;
        $T pivot = data[$pivot];
        int32_t i = low, j = high;
        while (i <= j) {
            while (data[i] < pivot)
                i++;
            while (pivot < data[j])
                j--;
            if (i <= j) {
                $T swap = data[i];
                data[i++] = data[j];
                data[j--] = swap;
            }
        }
        $sort(data, low, j);
        $sort(data, i, high);
    }

    $head
    {
        $sort(data, 0, count - 1);
        return data[count / 2];
    }
    """
    parameters = [Array("data", kind, (length,)), scalar_parameter("count", I32, 1, length)]
    pivot = kit.pick("low + (high - low) / 2", "(low + high) >> 1", "low")
    return kit.define("sort", kind, parameters, 40 * length**2, template, sort=kit.name("quicksort"), pivot=pivot)


def _merge_sort(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(60 * 6)
    template = """
    $head
    {
        $T other[$length] = {0};
        for (int32_t width = 1; width < $length; width *= 2) {
            for (int32_t start = 0; start < $length; start += 2 * width) {
                int32_t middle = start + width, end = middle + width;
                int32_t left = start, right = middle;
                for (int32_t k = start; k < end; k++) {
                    if (left < middle && (right >= end || data[left] <= data[right]))
                        other[k] = data[left++];
                    else
                        other[k] = data[right++];
                }
            }
            memcpy(data, other, sizeof(other));
        }
        return data[$some];
    }
    """
    parameters = [Array("data", kind, (length,))]
    work = length * length.bit_length() * 46
    return kit.define("merge_sort", kind, parameters, work, template, length=length, some=kit.rng.below(length))


def _binary_search(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(12)
    template = """
    $head
    {
        int32_t low = 0, high = count;
        while (low < high) {
            int32_t middle = low + (high - low) / 2;
            if (data[middle] $compare key)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
    """
    parameters = [
        Array("data", kind, (length,), writable=False),
        scalar_parameter("count", I32, 1, length),
        scalar_parameter("key", kind),
    ]
    result = Place("", I32, 0, length)
    return kit.define("search", result, parameters, 200, template, compare=kit.pick("<", "<="))


def _heap(kit: Kit) -> Function:
    """Make a heap, and take the first few elements."""
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(40 * 7)
    template = """
    static void $sift($T *heap, int32_t root, int32_t count)
    {
        for (;;) {
            int32_t child = 2 * root + 1;
            if (child >= count)
                break;
            if (child + 1 < count && heap[child + 1] $after heap[child])
                child++;
            if (!(heap[child] $after heap[root]))
                break;
            $T swap = heap[root];
            heap[root] = heap[child];
            heap[child] = swap;
            root = child;
        }
    }

    $head
    {
        for (int32_t i = $length / 2 - 1; i >= 0; i--)
            $sift(data, i, $length);
        for (int32_t n = $length; n > $length - $taken; n--) {
            $T first = data[0];
            data[0] = data[n - 1];
            data[n - 1] = first;
            $sift(data, 0, n - 1);
        }
        return data[$length - $taken];
    }
    """
    words = {
        "sift": kit.name("sift"),
        "after": kit.pick(">", "<"),
        "length": length,
        "taken": kit.rng.between(1, length),
    }
    parameters = [Array("data", kind, (length,))]
    return kit.define("heap", kind, parameters, length * length.bit_length() * 90, template, **words)


def _library_sort(kit: Kit) -> Function:
    """Sort by the library's function, with an order that tells all elements apart that differ."""
    kind = kit.rng.choice((I16, I32, U32, I64))
    length = kit.length(60, power=2)
    template = """
    static int $order(const void *a, const void *b)
    {
        $T x = *(const $T *)a, y = *(const $T *)b;
        return $result;
    }

    $head
    {
        qsort(data, (size_t)count, sizeof(data[0]), $order);
        return data[count / 2];
    }
    """
    result = kit.pick("(x > y) - (x < y)", "(x < y) - (x > y)", "x < y ? -1 : x > y")
    parameters = [Array("data", kind, (length,)), scalar_parameter("count", I32, 1, length)]
    return kit.define("sort", kind, parameters, length**2 * 60, template, order=kit.name("order"), result=result)


IDIOMS: tuple[Idiom, ...] = (_simple_sort, _simple_sort, _quicksort, _merge_sort, _binary_search, _heap, _library_sort)

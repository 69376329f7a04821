// polygon: exact integer geometry: convex hulls, ear clipping, segment intersections by a sweep, nearest points, areas
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <new>

template <typename T> T &&give(T &value) { return static_cast<T &&>(value); }

template <typename T> void exchange(T &a, T &b) {
    T old = give(a);
    a = give(b);
    b = give(old);
}

// A growing array that constructs its items in raw memory.
template <typename T> class Vector {
public:
    Vector() = default;
    Vector(const Vector &other) {
        reserve(other.size_);
        for (const T &item : other)
            push(item);
    }
    Vector(Vector &&other) : items_(other.items_), size_(other.size_), capacity_(other.capacity_) {
        other.items_ = nullptr;
        other.size_ = other.capacity_ = 0;
    }
    Vector &operator=(Vector other) {
        exchange(items_, other.items_);
        exchange(size_, other.size_);
        exchange(capacity_, other.capacity_);
        return *this;
    }
    ~Vector() {
        clear();
        free(items_);
    }

    void push(const T &item) {
        T copy = item; // the item may be one of ours
        if (size_ == capacity_)
            reserve(capacity_ == 0 ? 8 : capacity_ * 2);
        new (items_ + size_) T(give(copy));
        size_++;
    }

    T pop() {
        T last = give(items_[size_ - 1]);
        items_[--size_].~T();
        return last;
    }

    void insert(int at, const T &item) {
        push(item);
        for (int k = size_ - 1; k > at; k--)
            exchange(items_[k], items_[k - 1]);
    }

    void remove(int at) {
        for (int k = at; k + 1 < size_; k++)
            items_[k] = give(items_[k + 1]);
        pop();
    }

    void clear() {
        while (size_ > 0)
            items_[--size_].~T();
    }

    void reserve(int capacity) {
        if (capacity <= capacity_)
            return;
        T *larger = static_cast<T *>(malloc(sizeof(T) * static_cast<size_t>(capacity)));
        if (larger == nullptr) {
            puts("out of memory");
            exit(1);
        }
        for (int k = 0; k < size_; k++) {
            new (larger + k) T(give(items_[k]));
            items_[k].~T();
        }
        free(items_);
        items_ = larger;
        capacity_ = capacity;
    }

    T &operator[](int k) { return items_[k]; }
    const T &operator[](int k) const { return items_[k]; }
    T &last() { return items_[size_ - 1]; }
    int size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T *begin() { return items_; }
    T *end() { return items_ + size_; }
    const T *begin() const { return items_; }
    const T *end() const { return items_ + size_; }

private:
    T *items_ = nullptr;
    int size_ = 0, capacity_ = 0;
};

// Heapsort, with any order.
template <typename T, typename Before> void sort(Vector<T> &items, Before before) {
    auto sink = [&](int root, int end) {
        for (int child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && before(items[child], items[child + 1]))
                child++;
            if (!before(items[root], items[child]))
                return;
            exchange(items[root], items[child]);
        }
    };
    for (int k = items.size() / 2 - 1; k >= 0; k--)
        sink(k, items.size());
    for (int end = items.size() - 1; end > 0; end--) {
        exchange(items[0], items[end]);
        sink(0, end);
    }
}

struct Point {
    int64_t x = 0, y = 0;

    friend Point operator-(const Point &a, const Point &b) { return {a.x - b.x, a.y - b.y}; }
    friend bool operator==(const Point &a, const Point &b) { return a.x == b.x && a.y == b.y; }
    friend bool operator<(const Point &a, const Point &b) { return a.x != b.x ? a.x < b.x : a.y < b.y; }
};

using Polygon = Vector<Point>;

static int64_t cross(const Point &a, const Point &b) { return a.x * b.y - a.y * b.x; }
static int64_t dot(const Point &a, const Point &b) { return a.x * b.x + a.y * b.y; }
static int64_t turn(const Point &a, const Point &b, const Point &c) { return cross(b - a, c - a); }
static int sign(int64_t value) { return value < 0 ? -1 : value > 0; }

static int64_t twice_area(const Polygon &polygon) {
    int64_t area = 0;
    for (int k = 0; k < polygon.size(); k++)
        area += cross(polygon[k], polygon[(k + 1) % polygon.size()]);
    return area;
}

// Andrew's monotone chain, counter-clockwise without collinear points.
static Polygon convex_hull(Polygon points) {
    sort(points, [](const Point &a, const Point &b) { return a < b; });
    Polygon hull;
    auto extend = [&hull](const Point &point, int least) {
        while (hull.size() > least && turn(hull[hull.size() - 2], hull.last(), point) <= 0)
            hull.pop();
        hull.push(point);
    };
    for (const Point &point : points)
        extend(point, 1);
    int lower = hull.size();
    for (int k = points.size() - 2; k >= 0; k--)
        extend(points[k], lower);
    hull.pop();
    return hull;
}

// The greatest squared distance, by rotating calipers.
static int64_t squared_diameter(const Polygon &hull) {
    int64_t best = 0;
    int count = hull.size(), far = 1;
    for (int k = 0; k < count; k++) {
        const Point ends[] = {hull[k], hull[(k + 1) % count]};
        const Point &a = ends[0], &b = ends[1];
        while (turn(a, b, hull[(far + 1) % count]) > turn(a, b, hull[far]))
            far = (far + 1) % count;
        for (const Point &end : ends) {
            Point span = hull[far] - end;
            int64_t distance = dot(span, span);
            best = distance > best ? distance : best;
        }
    }
    return best;
}

// 1 inside, 0 on the border, -1 outside.
static int locate(const Polygon &polygon, const Point &point) {
    bool inside = false;
    for (int k = 0; k < polygon.size(); k++) {
        Point a = polygon[k], b = polygon[(k + 1) % polygon.size()];
        int64_t side = turn(a, b, point);
        if (side == 0 && dot(a - point, b - point) <= 0)
            return 0;
        if ((a.y > point.y) != (b.y > point.y) && (side > 0) == (b.y > a.y))
            inside = !inside;
    }
    return inside ? 1 : -1;
}

struct Triangle {
    Point a, b, c;

    int64_t twice_area() const { return turn(a, b, c); }
    bool contains(const Point &p) const { return turn(a, b, p) >= 0 && turn(b, c, p) >= 0 && turn(c, a, p) >= 0; }
};

// Ear clipping of a simple counter-clockwise polygon.
static Vector<Triangle> triangulate(Polygon polygon) {
    Vector<Triangle> triangles;
    triangles.reserve(polygon.size());
    auto is_ear = [&polygon](int k) {
        int count = polygon.size();
        Triangle ear{polygon[(k + count - 1) % count], polygon[k], polygon[(k + 1) % count]};
        if (ear.twice_area() <= 0)
            return false;
        for (const Point &point : polygon)
            if (!(point == ear.a) && !(point == ear.b) && !(point == ear.c) && ear.contains(point))
                return false;
        return true;
    };
    int k = 0, misses = 0;
    while (polygon.size() > 3 && misses <= polygon.size()) {
        int count = polygon.size();
        if (is_ear(k % count)) {
            triangles.push({polygon[(k + count - 1) % count], polygon[k % count], polygon[(k + 1) % count]});
            polygon.remove(k % count);
            misses = 0;
        } else {
            k++;
            misses++;
        }
        k %= polygon.size();
    }
    if (polygon.size() == 3)
        triangles.push({polygon[0], polygon[1], polygon[2]});
    return triangles;
}

struct Segment {
    Point left, right;
    int id;
};

static bool on_segment(const Segment &s, const Point &p) {
    return turn(s.left, s.right, p) == 0 && dot(s.left - p, s.right - p) <= 0;
}

static bool intersect(const Segment &s, const Segment &t) {
    int a = sign(turn(s.left, s.right, t.left)), b = sign(turn(s.left, s.right, t.right));
    int c = sign(turn(t.left, t.right, s.left)), d = sign(turn(t.left, t.right, s.right));
    if (a * b < 0 && c * d < 0)
        return true;
    return on_segment(s, t.left) || on_segment(s, t.right) || on_segment(t, s.left) || on_segment(t, s.right);
}

// Sweeps a vertical line over the ends of the segments and tests each one against those it may meet.
class Sweep {
public:
    explicit Sweep(const Vector<Segment> &segments) : segments_(segments) {
        for (const Segment &segment : segments) {
            events_.push({segment.left.x, true, segment.id});
            events_.push({segment.right.x, false, segment.id});
        }
        sort(events_, [](const Event &a, const Event &b) {
            if (a.x != b.x)
                return a.x < b.x;
            return a.starts != b.starts ? a.starts : a.segment < b.segment;
        });
    }

    int64_t count() {
        int64_t found = 0;
        for (const Event &event : events_) {
            if (event.starts)
                found += enter(segments_[event.segment]);
            else
                leave(event.segment);
        }
        return found;
    }

    int64_t tests() const { return tests_; }

private:
    struct Event {
        int64_t x;
        bool starts;
        int segment;
    };

    struct Active {
        int64_t low, high; // of the segment's y values; kept in order of `low`
        int segment;
    };

    int64_t enter(const Segment &segment) {
        int64_t low = segment.left.y < segment.right.y ? segment.left.y : segment.right.y;
        int64_t high = segment.left.y + segment.right.y - low, found = 0;
        int at = 0;
        for (; at < active_.size() && active_[at].low <= low; at++)
            found += active_[at].high >= low && meets(segment, active_[at]);
        for (int k = at; k < active_.size() && active_[k].low <= high; k++)
            found += meets(segment, active_[k]);
        active_.insert(at, {low, high, segment.id});
        return found;
    }

    bool meets(const Segment &segment, const Active &other) {
        tests_++;
        return intersect(segment, segments_[other.segment]);
    }

    void leave(int segment) {
        for (int k = 0; k < active_.size(); k++)
            if (active_[k].segment == segment) {
                active_.remove(k);
                return;
            }
    }

    const Vector<Segment> &segments_;
    Vector<Event> events_;
    Vector<Active> active_;
    int64_t tests_ = 0;
};

// Divide and conquer; leaves the points of the range in order of y.
class NearestPair {
public:
    int64_t operator()(Polygon points) {
        sort(points, [](const Point &a, const Point &b) { return a < b; });
        buffer_ = points;
        best_ = INT64_MAX;
        solve(points, 0, points.size());
        return best_;
    }

private:
    void solve(Polygon &points, int first, int end) {
        if (end - first < 2)
            return;
        int middle = (first + end) / 2;
        int64_t x = points[middle].x;
        solve(points, first, middle);
        solve(points, middle, end);
        merge(points, first, middle, end);
        int band = 0;
        for (int k = first; k < end; k++) {
            if ((points[k].x - x) * (points[k].x - x) >= best_)
                continue;
            for (int j = band - 1; j >= 0; j--) {
                Point span = points[k] - buffer_[j];
                if (span.y * span.y >= best_)
                    break;
                best_ = dot(span, span) < best_ ? dot(span, span) : best_;
            }
            buffer_[band++] = points[k];
        }
    }

    void merge(Polygon &points, int first, int middle, int end) {
        int left = first, right = middle, out = 0;
        while (left < middle || right < end) {
            bool take_left = right == end || (left < middle && points[left].y <= points[right].y);
            buffer_[out++] = points[take_left ? left++ : right++];
        }
        for (int k = 0; k < out; k++)
            points[first + k] = buffer_[k];
    }

    Polygon buffer_;
    int64_t best_ = 0;
};

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    int64_t below(int64_t bound) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(bound));
    }

    Point point(int64_t range) {
        int64_t x = below(range);
        return {x, below(range)};
    }

private:
    uint64_t state_;
};

// A simple polygon: points sorted by angle around a centre, which needs no angle but only cross products.
static Polygon star_polygon(Random &random, int count, int64_t radius) {
    Polygon points;
    while (points.size() < count) {
        Point point = random.point(2 * radius);
        point = point - Point{radius, radius};
        bool same_direction = point == Point{};
        for (const Point &other : points)
            same_direction |= cross(point, other) == 0 && dot(point, other) > 0;
        if (!same_direction)
            points.push(point);
    }
    auto upper = [](const Point &p) { return p.y > 0 || (p.y == 0 && p.x > 0); };
    sort(points, [&upper](const Point &a, const Point &b) {
        return upper(a) != upper(b) ? upper(a) : cross(a, b) > 0;
    });
    return points;
}

static void show_hull(Random &random, int count) {
    Polygon points;
    for (int k = 0; k < count; k++)
        points.push(random.point(1000000));
    Polygon hull = convex_hull(points);
    int outside = 0;
    for (const Point &point : points)
        outside += locate(hull, point) < 0;
    printf("hull of %d: corners %d area %lld diameter %lld outside %d nearest %lld\n", count, hull.size(),
           static_cast<long long>(twice_area(hull)), static_cast<long long>(squared_diameter(hull)), outside,
           static_cast<long long>(NearestPair()(points)));
}

static void show_triangles(Random &random, int count) {
    Polygon polygon = star_polygon(random, count, 5000);
    Vector<Triangle> triangles = triangulate(polygon);
    int64_t area = 0;
    uint32_t hash = 2166136261u;
    for (const Triangle &triangle : triangles) {
        area += triangle.twice_area();
        hash = (hash ^ static_cast<uint32_t>(triangle.twice_area())) * 16777619u;
    }
    int inside = 0, covered = 0;
    for (int k = 0; k < count; k++) {
        Point point = random.point(10000) - Point{5000, 5000};
        bool in_triangle = false;
        for (const Triangle &triangle : triangles)
            in_triangle |= triangle.contains(point);
        inside += locate(polygon, point) >= 0;
        covered += in_triangle;
    }
    printf("polygon of %d: triangles %d area %lld of %lld inside %d covered %d hash %08x\n", count, triangles.size(),
           static_cast<long long>(area), static_cast<long long>(twice_area(polygon)), inside, covered,
           static_cast<unsigned>(hash));
}

static void show_segments(Random &random, int count) {
    Vector<Segment> segments;
    for (int k = 0; k < count; k++) {
        Point start = random.point(7000), offset = random.point(1200);
        Point end = {start.x + offset.x - 600, start.y + offset.y - 600};
        segments.push(start < end ? Segment{start, end, k} : Segment{end, start, k});
    }
    int64_t expected = 0;
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            expected += intersect(segments[i], segments[j]);
    Sweep sweep(segments);
    int64_t found = sweep.count();
    printf("segments %d: intersections %lld of %lld, tests %lld\n", count, static_cast<long long>(found),
           static_cast<long long>(expected), static_cast<long long>(sweep.tests()));
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    int scale = strcmp(size, "large") == 0 ? 20 : strcmp(size, "medium") == 0 ? 6 : 1;
    Random random(31337);
    show_hull(random, 100 * scale);
    show_hull(random, 1000 * scale);
    show_triangles(random, 12 * scale);
    show_triangles(random, 25 * scale);
    show_segments(random, 100 * scale);
    return 0;
}

// raytracer: renders spheres, a box, a triangle mesh and a floor with shadows, reflections and a bounding volume tree
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Vec {
    double x = 0, y = 0, z = 0;

    Vec() = default;
    constexpr Vec(double x, double y, double z) : x(x), y(y), z(z) {}

    Vec operator-() const { return {-x, -y, -z}; }
    Vec &operator+=(const Vec &other) { return *this = *this + other; }
    friend Vec operator+(const Vec &a, const Vec &b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
    friend Vec operator-(const Vec &a, const Vec &b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
    friend Vec operator*(const Vec &a, const Vec &b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
    friend Vec operator*(const Vec &a, double s) { return {a.x * s, a.y * s, a.z * s}; }
    friend Vec operator*(double s, const Vec &a) { return a * s; }
    friend Vec operator/(const Vec &a, double s) { return a * (1 / s); }

    double operator[](int axis) const { return axis == 0 ? x : axis == 1 ? y : z; }
    double length() const { return sqrt(dot(*this, *this)); }
    Vec unit() const { return *this / length(); }

    friend double dot(const Vec &a, const Vec &b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
    friend Vec cross(const Vec &a, const Vec &b) {
        return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
    }
};

template <typename T> T smaller(T a, T b) { return a < b ? a : b; }
template <typename T> T larger(T a, T b) { return a < b ? b : a; }

static double power(double base, int exponent) {
    double result = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

static Vec reflect(const Vec &direction, const Vec &normal) {
    return direction - normal * (2 * dot(direction, normal));
}

struct Ray {
    Vec origin, direction;

    Vec at(double t) const { return origin + direction * t; }
};

struct Material {
    Vec colour;
    double diffuse, specular;
    int shine;
    double mirror;
};

class Shape;

struct Hit {
    double t = 1e30;
    const Shape *shape = nullptr;
    Vec normal;
};

struct Box {
    Vec low{1e30, 1e30, 1e30}, high{-1e30, -1e30, -1e30};

    void add(const Vec &point) {
        low = {smaller(low.x, point.x), smaller(low.y, point.y), smaller(low.z, point.z)};
        high = {larger(high.x, point.x), larger(high.y, point.y), larger(high.z, point.z)};
    }

    void add(const Box &other) {
        add(other.low);
        add(other.high);
    }

    // The part of the ray in the box; empty when `near` comes out beyond `far`.
    bool clip(const Ray &ray, double &near, double &far, int &axis) const {
        for (int k = 0; k < 3; k++) {
            double direction = ray.direction[k];
            if (fabs(direction) < 1e-12) {
                if (ray.origin[k] < low[k] || ray.origin[k] > high[k])
                    return false;
                continue;
            }
            double enter = (low[k] - ray.origin[k]) / direction, leave = (high[k] - ray.origin[k]) / direction;
            if (enter > leave) {
                double swap = enter;
                enter = leave;
                leave = swap;
            }
            if (enter > near) {
                near = enter;
                axis = k;
            }
            far = smaller(far, leave);
            if (near > far)
                return false;
        }
        return true;
    }
};

class Shape {
public:
    explicit Shape(const Material *material) : material_(material) {}
    virtual ~Shape() = default;
    virtual bool intersect(const Ray &ray, Hit &hit) const = 0;
    virtual Box bounds() const = 0;
    virtual Vec colour(const Vec &) const { return material_->colour; }
    const Material &material() const { return *material_; }

protected:
    bool accept(Hit &hit, double t, const Vec &normal) const {
        if (t < 1e-6 || t >= hit.t)
            return false;
        hit.t = t;
        hit.shape = this;
        hit.normal = normal;
        return true;
    }

private:
    const Material *material_;
};

class Sphere final : public Shape {
public:
    Sphere(const Material *material, const Vec &centre, double radius)
        : Shape(material), centre_(centre), radius_(radius) {}

    bool intersect(const Ray &ray, Hit &hit) const override {
        Vec offset = ray.origin - centre_;
        double b = dot(offset, ray.direction), c = dot(offset, offset) - radius_ * radius_;
        double discriminant = b * b - c;
        if (discriminant < 0)
            return false;
        double root = sqrt(discriminant);
        double t = -b - root > 1e-6 ? -b - root : -b + root;
        return accept(hit, t, (ray.at(t) - centre_) / radius_);
    }

    Box bounds() const override {
        Box box;
        box.add(centre_ - Vec(radius_, radius_, radius_));
        box.add(centre_ + Vec(radius_, radius_, radius_));
        return box;
    }

private:
    Vec centre_;
    double radius_;
};

class Triangle final : public Shape {
public:
    Triangle(const Material *material, const Vec &a, const Vec &b, const Vec &c)
        : Shape(material), corner_(a), edge1_(b - a), edge2_(c - a), normal_(cross(edge1_, edge2_).unit()) {}

    bool intersect(const Ray &ray, Hit &hit) const override {
        Vec p = cross(ray.direction, edge2_);
        double determinant = dot(edge1_, p);
        if (fabs(determinant) < 1e-12)
            return false;
        Vec offset = ray.origin - corner_;
        double u = dot(offset, p) / determinant;
        if (u < 0 || u > 1)
            return false;
        Vec q = cross(offset, edge1_);
        double v = dot(ray.direction, q) / determinant;
        if (v < 0 || u + v > 1)
            return false;
        return accept(hit, dot(edge2_, q) / determinant, dot(normal_, ray.direction) > 0 ? -normal_ : normal_);
    }

    Box bounds() const override {
        Box box;
        box.add(corner_);
        box.add(corner_ + edge1_);
        box.add(corner_ + edge2_);
        return box;
    }

private:
    Vec corner_, edge1_, edge2_, normal_;
};

class Block final : public Shape {
public:
    Block(const Material *material, const Vec &low, const Vec &high) : Shape(material) {
        box_.add(low);
        box_.add(high);
    }

    bool intersect(const Ray &ray, Hit &hit) const override {
        double near = -1e30, far = 1e30;
        int axis = 0;
        if (!box_.clip(ray, near, far, axis) || near < 0)
            return false;
        double side = ray.direction[axis] > 0 ? -1 : 1;
        return accept(hit, near, Vec(axis == 0 ? side : 0, axis == 1 ? side : 0, axis == 2 ? side : 0));
    }

    Box bounds() const override { return box_; }

private:
    Box box_;
};

class Floor final : public Shape {
public:
    Floor(const Material *light, const Vec &dark, double height) : Shape(light), dark_(dark), height_(height) {}

    bool intersect(const Ray &ray, Hit &hit) const override {
        if (fabs(ray.direction.y) < 1e-9)
            return false;
        double t = (height_ - ray.origin.y) / ray.direction.y;
        return t < 60 && accept(hit, t, Vec(0, 1, 0));
    }

    Box bounds() const override {
        Box box;
        box.add(Vec(-100, height_ - 0.01, -100));
        box.add(Vec(100, height_ + 0.01, 100));
        return box;
    }

    Vec colour(const Vec &point) const override {
        long square = static_cast<long>(floor(point.x)) + static_cast<long>(floor(point.z));
        return (square & 1) != 0 ? dark_ : material().colour;
    }

private:
    Vec dark_;
    double height_;
};

template <typename T> class List {
public:
    List() = default;
    List(const List &) = delete;
    List &operator=(const List &) = delete;
    ~List() { delete[] items_; }

    void push(const T &item) {
        if (count_ == capacity_) {
            capacity_ = capacity_ == 0 ? 8 : capacity_ * 2;
            T *larger = new T[static_cast<size_t>(capacity_)];
            for (int k = 0; k < count_; k++)
                larger[k] = items_[k];
            delete[] items_;
            items_ = larger;
        }
        items_[count_++] = item;
    }

    T &operator[](int k) { return items_[k]; }
    const T &operator[](int k) const { return items_[k]; }
    int size() const { return count_; }
    T *begin() { return items_; }
    T *end() { return items_ + count_; }
    const T *begin() const { return items_; }
    const T *end() const { return items_ + count_; }

private:
    T *items_ = nullptr;
    int count_ = 0, capacity_ = 0;
};

// A binary tree of boxes over the shapes, split at the middle of the widest axis.
class Tree {
public:
    void build(List<Shape *> &shapes) {
        shapes_ = &shapes;
        build_node(0, shapes.size());
    }

    bool intersect(const Ray &ray, Hit &hit) { return nodes_.size() > 0 && intersect_node(0, ray, hit); }

    int size() const { return nodes_.size(); }
    long visits() const { return visits_; }

private:
    struct Node {
        Box box;
        int first = 0, count = 0; // of a leaf
        int left = -1, right = -1;
    };

    static double centre(const Shape *shape, int axis) {
        Box box = shape->bounds();
        return (box.low[axis] + box.high[axis]) / 2;
    }

    int build_node(int first, int count) {
        int index = nodes_.size();
        nodes_.push(Node{});
        Box box;
        for (int k = first; k < first + count; k++)
            box.add((*shapes_)[k]->bounds());
        nodes_[index].box = box;
        if (count <= 2) {
            nodes_[index].first = first;
            nodes_[index].count = count;
            return index;
        }
        Vec extent = box.high - box.low;
        int axis = extent.x >= extent.y && extent.x >= extent.z ? 0 : extent.y >= extent.z ? 1 : 2;
        sort_by_centre(first, count, axis);
        int left = build_node(first, count / 2);
        int right = build_node(first + count / 2, count - count / 2);
        nodes_[index].left = left;
        nodes_[index].right = right;
        return index;
    }

    void sort_by_centre(int first, int count, int axis) {
        List<Shape *> &shapes = *shapes_;
        for (int k = first + 1; k < first + count; k++) {
            Shape *shape = shapes[k];
            int at = k;
            for (; at > first && centre(shapes[at - 1], axis) > centre(shape, axis); at--)
                shapes[at] = shapes[at - 1];
            shapes[at] = shape;
        }
    }

    bool intersect_node(int index, const Ray &ray, Hit &hit) {
        const Node &node = nodes_[index];
        double near = 0, far = hit.t;
        int axis = 0;
        visits_++;
        if (!node.box.clip(ray, near, far, axis))
            return false;
        bool found = false;
        for (int k = 0; k < node.count; k++)
            found |= (*shapes_)[node.first + k]->intersect(ray, hit);
        if (node.left >= 0) {
            found |= intersect_node(node.left, ray, hit);
            found |= intersect_node(node.right, ray, hit);
        }
        return found;
    }

    List<Shape *> *shapes_ = nullptr;
    List<Node> nodes_;
    long visits_ = 0;
};

struct Light {
    Vec position, colour;
};

class Scene {
public:
    ~Scene() {
        for (Shape *shape : shapes_)
            delete shape;
    }

    template <typename T, typename... Arguments> void add(const Arguments &...arguments) {
        shapes_.push(new T(arguments...));
    }

    void add_light(const Light &light) { lights_.push(light); }
    void prepare() { tree_.build(shapes_); }

    Vec trace(const Ray &ray, int depth) {
        Hit hit;
        rays_++;
        if (!tree_.intersect(ray, hit))
            return sky(ray.direction);
        Vec point = ray.at(hit.t) + hit.normal * 1e-5;
        const Material &material = hit.shape->material();
        Vec base = hit.shape->colour(point), result = base * 0.1;
        for (const Light &light : lights_)
            result += shade(ray, point, hit.normal, material, base, light);
        if (material.mirror > 0 && depth > 0) {
            Ray next{point, reflect(ray.direction, hit.normal).unit()};
            result = result * (1 - material.mirror) + trace(next, depth - 1) * material.mirror;
        }
        return result;
    }

    // The nearest shape without the tree, to check the tree.
    bool agrees(const Ray &ray) {
        Hit slow, fast;
        for (const Shape *shape : shapes_)
            shape->intersect(ray, slow);
        tree_.intersect(ray, fast);
        return slow.shape == fast.shape;
    }

    int size() const { return shapes_.size(); }
    long rays() const { return rays_; }
    const Tree &tree() const { return tree_; }

private:
    static Vec sky(const Vec &direction) {
        double t = 0.5 * (direction.y + 1);
        return Vec(0.9, 0.9, 1) * (1 - t) + Vec(0.3, 0.5, 0.9) * t;
    }

    Vec shade(const Ray &ray, const Vec &point, const Vec &normal, const Material &material, const Vec &base,
              const Light &light) {
        Vec to_light = light.position - point;
        double distance = to_light.length();
        Vec direction = to_light / distance;
        double facing = dot(direction, normal);
        if (facing <= 0)
            return {};
        Hit shadow;
        shadow.t = distance;
        rays_++;
        if (tree_.intersect(Ray{point, direction}, shadow))
            return {};
        Vec result = base * light.colour * (facing * material.diffuse);
        double gleam = dot(reflect(ray.direction, normal), direction);
        if (gleam > 0 && material.specular > 0)
            result += light.colour * (material.specular * power(gleam, material.shine));
        return result;
    }

    List<Shape *> shapes_;
    List<Light> lights_;
    Tree tree_;
    long rays_ = 0;
};

class Random {
public:
    explicit Random(uint32_t seed) : state_(seed) {}

    double operator()(double low, double high) {
        state_ = state_ * 1664525u + 1013904223u;
        return low + (high - low) * (state_ >> 8) / 16777216.0;
    }

private:
    uint32_t state_;
};

static const Material red{{0.9, 0.2, 0.15}, 0.8, 0.5, 32, 0.1}, glass{{0.9, 0.95, 1}, 0.2, 0.9, 64, 0.75},
    green{{0.2, 0.7, 0.3}, 0.8, 0.2, 8, 0}, gold{{0.9, 0.7, 0.2}, 0.6, 0.8, 24, 0.35},
    tile{{0.95, 0.95, 0.95}, 0.8, 0, 1, 0.15};

static void build_scene(Scene &scene, int small_spheres) {
    scene.add<Floor>(&tile, Vec(0.15, 0.15, 0.2), -1.0);
    scene.add<Sphere>(&red, Vec(-1.2, 0, 0.5), 1.0);
    scene.add<Sphere>(&glass, Vec(1.1, 0.1, -0.4), 1.1);
    scene.add<Block>(&green, Vec(-0.4, -1, -1.8), Vec(0.5, -0.3, -1.0));
    Vec top(2.6, 1.4, 2.5), corners[4] = {{1.6, -1, 1.5}, {3.6, -1, 1.5}, {3.6, -1, 3.5}, {1.6, -1, 3.5}};
    for (int k = 0; k < 4; k++)
        scene.add<Triangle>(&gold, corners[k], corners[(k + 1) % 4], top);
    Random random(2024);
    const Material *materials[] = {&red, &glass, &green, &gold};
    for (int k = 0; k < small_spheres; k++) {
        double radius = random(0.1, 0.3), x = random(-5, 5), z = random(-3, 8);
        scene.add<Sphere>(materials[k % 4], Vec(x, radius - 1, z), radius);
    }
    scene.add_light({{-4, 6, -5}, {0.8, 0.75, 0.7}});
    scene.add_light({{5, 4, -2}, {0.3, 0.3, 0.4}});
}

static int quantise(double value) { return static_cast<int>(smaller(larger(value, 0.0), 0.999) * 16); }

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    bool large = strcmp(size, "large") == 0, medium = strcmp(size, "medium") == 0;
    int width = large ? 192 : medium ? 80 : 24, height = width * 3 / 4, depth = large ? 5 : 3;
    Scene scene;
    build_scene(scene, large ? 120 : medium ? 40 : 10);
    scene.prepare();

    Vec eye(0.5, 1.2, -6), target(0.2, -0.2, 0);
    Vec forward = (target - eye).unit(), right = cross(Vec(0, 1, 0), forward).unit(), up = cross(forward, right);
    uint32_t checksum = 2166136261u;
    int histogram[16] = {}, disagreements = 0;
    Vec sum;
    for (int row = 0; row < height; row++) {
        for (int column = 0; column < width; column++) {
            double x = (2.0 * column + 1 - width) / width * 0.7, y = (height - 2.0 * row - 1) / width * 0.7;
            Ray ray{eye, (forward + right * x + up * y).unit()};
            Vec colour = scene.trace(ray, depth);
            if ((row * width + column) % 13 == 0)
                disagreements += !scene.agrees(ray);
            int levels[3] = {quantise(colour.x), quantise(colour.y), quantise(colour.z)};
            for (int level : levels)
                checksum = (checksum ^ static_cast<uint32_t>(level)) * 16777619u;
            histogram[(levels[0] + levels[1] + levels[2]) / 3]++;
            sum += colour;
        }
    }
    printf("image %dx%d shapes %d tree %d disagreements %d\n", width, height, scene.size(), scene.tree().size(),
           disagreements);
    printf("rays %ld visits %ld checksum %08x\n", scene.rays(), scene.tree().visits(), static_cast<unsigned>(checksum));
    Vec mean = sum / (width * height);
    printf("mean %.4f %.4f %.4f\nhistogram", mean.x, mean.y, mean.z);
    for (int count : histogram)
        printf(" %d", count);
    printf("\n");
    return 0;
}

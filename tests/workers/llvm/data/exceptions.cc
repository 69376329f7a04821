struct Base { virtual ~Base() {} virtual int run(int) = 0; };
struct Noisy { int *n; Noisy(int *p) : n(p) { ++*n; } ~Noisy() { --*n; } };
int risky(int);
struct Child : Base {
    int state = 0;
    int run(int x) override {
        Noisy guard(&state);
        try { return risky(x) + state; }
        catch (int e) { return e; }
        catch (...) { if (x > 1) throw; return -1; }
    }
};
template <int N> int unrolled(Base &b) { return b.run(N) + unrolled<N - 1>(b); }
template <> int unrolled<0>(Base &) { return 0; }
int all() { Child c; return unrolled<12>(c); }

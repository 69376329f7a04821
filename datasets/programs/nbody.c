// nbody: gravity by direct summation, with leapfrog, Euler and Runge-Kutta compared by energy

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    double x, y, z;
} Vec;

typedef struct {
    Vec position, velocity, force; /* force is acceleration */
    double mass;
} Body;

typedef struct {
    Body *bodies;
    int count;
    double softening; /* squared */
} World;

typedef void (*Integrator)(World *, double dt);

static uint64_t state = 42;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) / 16777216.0;
}

static Vec add_scaled(Vec a, Vec b, double k)
{
    a.x += k * b.x;
    a.y += k * b.y;
    a.z += k * b.z;
    return a;
}

static double inner(Vec a, Vec b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static Vec cross(Vec a, Vec b)
{
    Vec c = {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
    return c;
}

static void compute_forces(World *w)
{
    for (int i = 0; i < w->count; i++)
        memset(&w->bodies[i].force, 0, sizeof(Vec));
    for (int i = 0; i < w->count; i++) {
        Body *a = &w->bodies[i];
        for (int j = i + 1; j < w->count; j++) {
            Body *b = &w->bodies[j];
            Vec gap = add_scaled(b->position, a->position, -1.0);
            double d2 = inner(gap, gap) + w->softening;
            double pull = 1.0 / (d2 * sqrt(d2));
            a->force = add_scaled(a->force, gap, pull * b->mass);
            b->force = add_scaled(b->force, gap, -pull * a->mass);
        }
    }
}

static void euler(World *w, double dt)
{
    compute_forces(w);
    for (Body *b = w->bodies; b < w->bodies + w->count; b++) {
        b->position = add_scaled(b->position, b->velocity, dt);
        b->velocity = add_scaled(b->velocity, b->force, dt);
    }
}

/* Kick, drift, kick; the forces at the start of a step are those of the end of the last. */
static void leapfrog(World *w, double dt)
{
    for (Body *b = w->bodies; b < w->bodies + w->count; b++) {
        b->velocity = add_scaled(b->velocity, b->force, 0.5 * dt);
        b->position = add_scaled(b->position, b->velocity, dt);
    }
    compute_forces(w);
    for (Body *b = w->bodies; b < w->bodies + w->count; b++)
        b->velocity = add_scaled(b->velocity, b->force, 0.5 * dt);
}

static void runge_kutta(World *w, double dt)
{
    static const double ahead[4] = {0.0, 0.5, 0.5, 1.0}, weight[4] = {1.0, 2.0, 2.0, 1.0};
    size_t n = (size_t)w->count;
    Body *start = malloc(n * sizeof(Body));
    Vec *slopes = calloc(4 * n, sizeof(Vec)); /* velocity and force now, then their weighted sums */
    if (!start || !slopes)
        exit(1);
    memcpy(start, w->bodies, n * sizeof(Body));
    for (int stage = 0; stage < 4; stage++) {
        for (size_t i = 0; i < n; i++) {
            Body *b = &w->bodies[i];
            b->position = add_scaled(start[i].position, slopes[4 * i], ahead[stage] * dt);
            b->velocity = add_scaled(start[i].velocity, slopes[4 * i + 1], ahead[stage] * dt);
        }
        compute_forces(w);
        for (size_t i = 0; i < n; i++) {
            Body *b = &w->bodies[i];
            Vec *k = &slopes[4 * i];
            k[0] = b->velocity;
            k[1] = b->force;
            k[2] = add_scaled(k[2], k[0], weight[stage]);
            k[3] = add_scaled(k[3], k[1], weight[stage]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        w->bodies[i].position = add_scaled(start[i].position, slopes[4 * i + 2], dt / 6.0);
        w->bodies[i].velocity = add_scaled(start[i].velocity, slopes[4 * i + 3], dt / 6.0);
    }
    free(start);
    free(slopes);
}

static double energy(const World *w)
{
    double total = 0.0;
    for (int i = 0; i < w->count; i++) {
        const Body *a = &w->bodies[i];
        total += 0.5 * a->mass * inner(a->velocity, a->velocity);
        for (int j = i + 1; j < w->count; j++) {
            Vec gap = add_scaled(w->bodies[j].position, a->position, -1.0);
            total -= a->mass * w->bodies[j].mass / sqrt(inner(gap, gap) + w->softening);
        }
    }
    return total;
}

static Vec momentum(const World *w)
{
    Vec sum = {0.0, 0.0, 0.0};
    for (int i = 0; i < w->count; i++)
        sum = add_scaled(sum, w->bodies[i].velocity, w->bodies[i].mass);
    return sum;
}

static double spin(const World *w)
{
    Vec sum = {0.0, 0.0, 0.0};
    for (int i = 0; i < w->count; i++)
        sum = add_scaled(sum, cross(w->bodies[i].position, w->bodies[i].velocity), w->bodies[i].mass);
    return sqrt(inner(sum, sum));
}

/* The frame in which nothing drifts. */
static void cancel_momentum(World *w)
{
    double mass = 0.0;
    for (int i = 0; i < w->count; i++)
        mass += w->bodies[i].mass;
    Vec drift = momentum(w);
    for (int i = 0; i < w->count; i++)
        w->bodies[i].velocity = add_scaled(w->bodies[i].velocity, drift, -1.0 / mass);
}

static World world_new(int count, double softening)
{
    World w = {calloc((size_t)count, sizeof(Body)), count, softening};
    if (!w.bodies) {
        puts("nbody: out of memory");
        exit(1);
    }
    return w;
}

/* A star and planets on tilted circular orbits; units in which the star's attraction is 1. */
static World planetary(void)
{
    static const double radius[] = {1.0, 1.84, 3.69, 5.78}, mass[] = {9.5e-4, 2.9e-4, 4.4e-5, 5.2e-5};
    World w = world_new(5, 0.0);
    w.bodies[0].mass = 1.0;
    for (int i = 1; i < 5; i++) {
        Body *b = &w.bodies[i];
        double speed = sqrt(1.0 / radius[i - 1]), tilt = 0.02 * i;
        double angle = 1.3 * i;
        b->mass = mass[i - 1];
        b->position.x = radius[i - 1] * cos(angle);
        b->position.y = radius[i - 1] * sin(angle) * cos(tilt);
        b->position.z = radius[i - 1] * sin(angle) * sin(tilt);
        b->velocity.x = -speed * sin(angle);
        b->velocity.y = speed * cos(angle) * cos(tilt);
        b->velocity.z = speed * cos(angle) * sin(tilt);
    }
    cancel_momentum(&w);
    return w;
}

static World cluster(int count)
{
    World w = world_new(count, 0.01);
    for (int i = 0; i < count; i++) {
        Body *b = &w.bodies[i];
        do {
            b->position.x = 2.0 * uniform() - 1.0;
            b->position.y = 2.0 * uniform() - 1.0;
            b->position.z = 2.0 * uniform() - 1.0;
        } while (inner(b->position, b->position) > 1.0);
        b->velocity.x = -0.5 * b->position.y + 0.1 * uniform();
        b->velocity.y = 0.5 * b->position.x + 0.1 * uniform();
        b->mass = (0.5 + uniform()) / count;
    }
    cancel_momentum(&w);
    return w;
}

static void simulate(const char *name, Integrator step, World w, double dt, int steps)
{
    double before = energy(&w), turning = spin(&w);
    compute_forces(&w);
    for (int s = 0; s < steps; s++)
        step(&w, dt);
    Vec drift = momentum(&w), p = w.bodies[1].position;
    printf("%-18s energy %.9f then %.9f, spin %.6f then %.6f, drift %s, at %.5f %.5f %.5f\n", name, before, energy(&w),
           turning, spin(&w), sqrt(inner(drift, drift)) < 1e-12 ? "none" : "SOME", p.x, p.y, p.z);
    free(w.bodies);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int orbit_steps, stars, cluster_steps;
    } sizes[] = {{"small", 500, 24, 20}, {"medium", 40000, 64, 400}, {"large", 200000, 160, 1200}};
    const char *size = argc > 1 ? argv[1] : "small";
    for (int i = 0; i < 3; i++) {
        if (strcmp(size, sizes[i].name) == 0) {
            int steps = sizes[i].orbit_steps;
            simulate("planets euler", euler, planetary(), 0.002, steps);
            simulate("planets leapfrog", leapfrog, planetary(), 0.01, steps);
            simulate("planets kutta", runge_kutta, planetary(), 0.04, steps / 4);
            simulate("cluster leapfrog", leapfrog, cluster(sizes[i].stars), 0.005, sizes[i].cluster_steps);
            return 0;
        }
    }
    puts("usage: nbody [small|medium|large]");
    return 2;
}

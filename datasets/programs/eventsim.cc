// eventsim: simulates jobs that wait for machines, break down and share trucks, from a queue of timed events
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <new>

// ---- Containers ------------------------------------------------------------------------------------------------------

// A doubly linked list through a base class of its items; an item is in one list at a time.
class Link {
public:
    Link() : previous_(this), next_(this) {}
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;
    ~Link() { unlink(); }

    bool linked() const { return next_ != this; }

    void unlink() {
        previous_->next_ = next_;
        next_->previous_ = previous_;
        previous_ = next_ = this;
    }

    void insert_before(Link &other) {
        unlink();
        previous_ = other.previous_;
        next_ = &other;
        previous_->next_ = this;
        other.previous_ = this;
    }

    Link *next() const { return next_; }

private:
    Link *previous_, *next_;
};

template <typename T> class Chain {
public:
    void push(T &item) {
        item.insert_before(head_);
        size_++;
    }

    T *pop() {
        if (!head_.linked())
            return nullptr;
        T *first = static_cast<T *>(head_.next());
        first->unlink();
        size_--;
        return first;
    }

    // Takes out the first item that the predicate holds for.
    template <typename Predicate> T *take(Predicate wanted) {
        for (Link *link = head_.next(); link != &head_; link = link->next()) {
            T *item = static_cast<T *>(link);
            if (!wanted(*item))
                continue;
            item->unlink();
            size_--;
            return item;
        }
        return nullptr;
    }

    int size() const { return size_; }
    bool empty() const { return size_ == 0; }

private:
    Link head_;
    int size_ = 0;
};

// A callable kept in place: it has to fit, and to need no destructor.
template <typename Signature> class Callback;

template <typename Result, typename... Arguments> class Callback<Result(Arguments...)> {
public:
    Callback() = default;

    template <typename F> Callback(const F &function) {
        static_assert(sizeof(F) <= sizeof(storage_) && alignof(F) <= alignof(void *), "the callable is too large");
        new (storage_) F(function);
        invoke_ = [](void *storage, Arguments... arguments) -> Result {
            return (*static_cast<F *>(storage))(arguments...);
        };
    }

    explicit operator bool() const { return invoke_ != nullptr; }
    Result operator()(Arguments... arguments) { return invoke_(storage_, arguments...); }

private:
    alignas(void *) unsigned char storage_[32] = {};
    Result (*invoke_)(void *, Arguments...) = nullptr;
};

// A binary heap; Before(a, b) tells whether a leaves before b.
template <typename T, typename Before> class PriorityQueue {
public:
    PriorityQueue() = default;
    PriorityQueue(const PriorityQueue &) = delete;
    PriorityQueue &operator=(const PriorityQueue &) = delete;
    ~PriorityQueue() { delete[] items_; }

    void push(const T &item) {
        if (size_ == capacity_)
            grow();
        int hole = size_++;
        while (hole > 0 && before_(item, items_[(hole - 1) / 2])) {
            items_[hole] = items_[(hole - 1) / 2];
            hole = (hole - 1) / 2;
        }
        items_[hole] = item;
    }

    T pop() {
        T first = items_[0], last = items_[--size_];
        int hole = 0;
        for (int child = 1; child < size_; child = 2 * hole + 1) {
            if (child + 1 < size_ && before_(items_[child + 1], items_[child]))
                child++;
            if (!before_(items_[child], last))
                break;
            items_[hole] = items_[child];
            hole = child;
        }
        items_[hole] = last;
        return first;
    }

    bool empty() const { return size_ == 0; }
    int size() const { return size_; }

private:
    void grow() {
        capacity_ = capacity_ == 0 ? 16 : capacity_ * 2;
        T *larger = new T[static_cast<size_t>(capacity_)];
        for (int k = 0; k < size_; k++)
            larger[k] = items_[k];
        delete[] items_;
        items_ = larger;
    }

    T *items_ = nullptr;
    int size_ = 0, capacity_ = 0;
    Before before_;
};

// ---- The simulation --------------------------------------------------------------------------------------------------

using Time = int64_t; // in seconds

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    int64_t below(int64_t bound) {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<int64_t>((state_ >> 20) % static_cast<uint64_t>(bound));
    }

    int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }

    // Failures of a coin: the waiting time without memory, kept in whole numbers.
    int64_t geometric(int64_t mean) {
        int64_t steps = 0, slice = mean / 16 + 1;
        while (below(16) != 0 && steps < 160)
            steps++;
        return steps * slice + below(slice);
    }

private:
    uint64_t state_;
};

class Simulation {
public:
    using Action = Callback<void()>;

    explicit Simulation(uint64_t seed) : random_(seed) {}

    uint64_t after(Time delay, const Action &action) {
        events_.push({now_ + delay, next_id_, action});
        return next_id_++;
    }

    void run(Time end) {
        while (!events_.empty()) {
            Event event = events_.pop();
            if (event.time > end)
                break;
            now_ = event.time;
            hash_ = (hash_ ^ static_cast<uint64_t>(now_)) * 0x100000001b3u;
            executed_++;
            event.action();
        }
        now_ = end;
    }

    Time now() const { return now_; }
    Random &random() { return random_; }
    long executed() const { return executed_; }
    uint64_t hash() const { return hash_; }
    int waiting() const { return events_.size(); }

private:
    struct Event {
        Time time = 0;
        uint64_t id = 0; // breaks ties in the order of scheduling
        Action action;
    };

    struct Earlier {
        bool operator()(const Event &a, const Event &b) const {
            return a.time != b.time ? a.time < b.time : a.id < b.id;
        }
    };

    Time now_ = 0;
    uint64_t next_id_ = 0;
    Random random_;
    PriorityQueue<Event, Earlier> events_;
    long executed_ = 0;
    uint64_t hash_ = 0xcbf29ce484222325u;
};

// A mean over time of something that jumps.
class Level {
public:
    void set(Time now, int64_t value) {
        area_ += value_ * (now - since_);
        since_ = now;
        value_ = value;
        peak_ = value > peak_ ? value : peak_;
    }

    int64_t permille(Time now) const { return now == 0 ? 0 : (area_ + value_ * (now - since_)) * 1000 / now; }
    int64_t peak() const { return peak_; }

private:
    Time since_ = 0;
    int64_t value_ = 0, area_ = 0, peak_ = 0;
};

struct Job : Link {
    int id = 0, kind = 0, step = 0;
    bool urgent = false;
    Time created = 0, worked = 0;
};

class Station {
public:
    Station(Simulation &simulation, const char *name) : simulation_(simulation), name_(name) {}
    Station(const Station &) = delete;
    Station &operator=(const Station &) = delete;
    virtual ~Station() = default;

    void send_to(Station &next) { next_ = &next; }
    virtual void accept(Job &job) = 0;
    virtual void report() const = 0;
    virtual void start() {}

protected:
    void forward(Job &job) {
        job.step++;
        if (next_ != nullptr)
            next_->accept(job);
    }

    Simulation &simulation_;
    const char *name_;

private:
    Station *next_ = nullptr;
};

class Source final : public Station {
public:
    Source(Simulation &simulation, const char *name, Time mean, int urgent_percent)
        : Station(simulation, name), mean_(mean), urgent_percent_(urgent_percent) {}

    ~Source() override {
        while (Job *job = idle_.pop())
            delete job;
    }

    void start() override { schedule(); }
    void accept(Job &job) override { idle_.push(job); } // a finished job comes back to be used again
    void report() const override { printf("%s: made %d, allocated %d\n", name_, made_, allocated_); }

private:
    void schedule() {
        simulation_.after(simulation_.random().geometric(mean_), [this] {
            make();
            schedule();
        });
    }

    void make() {
        Job *job = idle_.pop();
        if (job == nullptr) {
            job = new Job;
            allocated_++;
        }
        job->id = made_++;
        job->kind = static_cast<int>(simulation_.random().below(3));
        job->urgent = simulation_.random().below(100) < urgent_percent_;
        job->step = 0;
        job->created = simulation_.now();
        job->worked = 0;
        forward(*job);
    }

    Chain<Job> idle_;
    Time mean_;
    int urgent_percent_, made_ = 0, allocated_ = 0;
};

class Workshop : public Station {
public:
    Workshop(Simulation &simulation, const char *name, int machines, Time work)
        : Station(simulation, name), free_(machines), work_(work) {}

    ~Workshop() override {
        while (Job *job = queue_.pop())
            delete job;
        while (Job *job = working_.pop())
            delete job;
    }

    void accept(Job &job) override {
        queue_.push(job);
        length_.set(simulation_.now(), queue_.size());
        dispatch();
    }

    void report() const override {
        printf("%s: done %d, queue mean %lld/1000 peak %lld, busy mean %lld/1000, left %d\n", name_, done_,
               static_cast<long long>(length_.permille(simulation_.now())), static_cast<long long>(length_.peak()),
               static_cast<long long>(busy_.permille(simulation_.now())), queue_.size() + working_.size());
    }

protected:
    virtual Time duration(const Job &job) {
        return work_ * (job.kind + 2) / 3 + simulation_.random().below(work_ / 2 + 1);
    }

    virtual Job *choose() {
        Job *job = queue_.take([](const Job &waiting) { return waiting.urgent; });
        return job != nullptr ? job : queue_.pop();
    }

    void dispatch() {
        while (free_ > 0 && !queue_.empty()) {
            Job *job = choose();
            if (job == nullptr)
                return;
            length_.set(simulation_.now(), queue_.size());
            free_--;
            working_.push(*job);
            busy_.set(simulation_.now(), working_.size());
            Time time = duration(*job);
            job->worked += time;
            simulation_.after(time, [this, job] { finish(*job); });
        }
    }

    void change_machines(int difference) {
        free_ += difference;
        dispatch();
    }

    int free_machines() const { return free_; }

    Chain<Job> queue_;

private:
    void finish(Job &job) {
        Job *found = working_.take([&job](const Job &other) { return &other == &job; });
        done_++;
        free_++;
        busy_.set(simulation_.now(), working_.size());
        forward(*found);
        dispatch();
    }

    Chain<Job> working_;
    int free_, done_ = 0;
    Time work_;
    Level length_, busy_;
};

// Machines that change over between kinds, break down and are repaired.
class FragileWorkshop final : public Workshop {
public:
    FragileWorkshop(Simulation &simulation, const char *name, int machines, Time work, Time lifetime)
        : Workshop(simulation, name, machines, work), lifetime_(lifetime) {}

    void start() override {
        simulation_.after(simulation_.random().geometric(lifetime_), [this] { fail(); });
    }

    void report() const override {
        Workshop::report();
        printf("%s: failures %d, changes of kind %d\n", name_, failures_, changes_);
    }

protected:
    Time duration(const Job &job) override {
        bool change = job.kind != kind_;
        kind_ = job.kind;
        changes_ += change;
        return Workshop::duration(job) + (change ? 40 : 0);
    }

    Job *choose() override {
        Job *same = queue_.take([this](const Job &job) { return job.kind == kind_ && job.urgent; });
        if (same == nullptr)
            same = queue_.take([this](const Job &job) { return job.kind == kind_; });
        return same != nullptr ? same : Workshop::choose();
    }

private:
    void fail() {
        if (free_machines() > 0) {
            failures_++;
            change_machines(-1);
            simulation_.after(simulation_.random().between(200, 900), [this] { change_machines(1); });
        }
        start();
    }

    Time lifetime_;
    int kind_ = 0, failures_ = 0, changes_ = 0;
};

// Carries a full load at a time, or what there is when the wait has been too long.
class Truck final : public Station {
public:
    Truck(Simulation &simulation, const char *name, int load, Time trip, Time patience)
        : Station(simulation, name), load_(load), trip_(trip), patience_(patience) {}

    ~Truck() override {
        while (Job *job = dock_.pop())
            delete job;
        while (Job *job = aboard_.pop())
            delete job;
    }

    void accept(Job &job) override {
        dock_.push(job);
        if (dock_.size() == 1) {
            int trip = trips_;
            simulation_.after(patience_, [this, trip] {
                if (trip == trips_)
                    leave(false);
            });
        }
        leave(true);
    }

    void report() const override {
        printf("%s: trips %d, full %d, carried %d, left %d\n", name_, trips_, full_, carried_,
               dock_.size() + aboard_.size());
    }

private:
    void leave(bool only_full) {
        if (away_ || dock_.empty() || (only_full && dock_.size() < load_))
            return;
        away_ = true;
        trips_++;
        full_ += dock_.size() >= load_;
        while (aboard_.size() < load_ && !dock_.empty())
            aboard_.push(*dock_.pop());
        carried_ += aboard_.size();
        simulation_.after(trip_ + simulation_.random().below(trip_ / 4 + 1), [this] { arrive(); });
    }

    void arrive() {
        while (Job *job = aboard_.pop())
            forward(*job);
        simulation_.after(trip_, [this] {
            away_ = false;
            leave(dock_.size() < load_ / 2);
        });
    }

    Chain<Job> dock_, aboard_;
    int load_;
    Time trip_, patience_;
    bool away_ = false;
    int trips_ = 0, full_ = 0, carried_ = 0;
};

class Customer final : public Station {
public:
    using Station::Station;

    void accept(Job &job) override {
        Time spent = simulation_.now() - job.created;
        int slot = 0;
        for (Time limit = 500; slot < 7 && spent >= limit; limit *= 2)
            slot++;
        histogram_[slot]++;
        total_[job.urgent] += spent;
        count_[job.urgent]++;
        worked_ += job.worked;
        forward(job);
    }

    void report() const override {
        printf("%s: normal %d mean %lld, urgent %d mean %lld, worked %lld, histogram", name_, count_[0], mean(0),
               count_[1], mean(1), static_cast<long long>(worked_));
        for (int count : histogram_)
            printf(" %d", count);
        printf("\n");
    }

private:
    long long mean(int urgent) const { return count_[urgent] == 0 ? 0 : total_[urgent] / count_[urgent]; }

    Time total_[2] = {}, worked_ = 0;
    int count_[2] = {}, histogram_[8] = {};
};

static void simulate(uint64_t seed, Time end, bool details) {
    Simulation simulation(seed);
    Source source(simulation, "source", 95, 12);
    Workshop cutting(simulation, "cutting", 3, 200);
    FragileWorkshop welding(simulation, "welding", 5, 260, 1500);
    Truck truck(simulation, "truck", 8, 300, 1200);
    Workshop packing(simulation, "packing", 1, 60);
    Customer customer(simulation, "customer");
    Station *stations[] = {&source, &cutting, &welding, &truck, &packing, &customer};
    for (size_t k = 0; k < 6; k++) {
        stations[k]->send_to(*stations[(k + 1) % 6]);
        stations[k]->start();
    }
    simulation.run(end);
    if (details)
        for (const Station *station : stations)
            station->report();
    printf("seed %llu: events %ld, still waiting %d, hash %016llx\n", static_cast<unsigned long long>(seed),
           simulation.executed(), simulation.waiting(), static_cast<unsigned long long>(simulation.hash()));
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    Time day = 86400, end = strcmp(size, "large") == 0 ? 365 * day : strcmp(size, "medium") == 0 ? 40 * day : day;
    simulate(1, end, true);
    for (uint64_t seed = 2; seed <= 4; seed++)
        simulate(seed, end / 4, false);
    return 0;
}

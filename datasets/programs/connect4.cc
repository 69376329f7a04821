// connect4: plays four-in-a-row on bitboards of several sizes by alpha-beta search with a transposition table
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Column-major bitboard with one empty guard row above every column.
template <int Width, int Height> class Position {
    static_assert(Width * (Height + 1) <= 64, "the board must fit in one word");

public:
    static constexpr int width = Width, height = Height, cells = Width * Height;

    bool can_play(int column) const { return (all_ & top(column)) == 0; }

    void play(int column) {
        mine_ ^= all_;
        all_ |= all_ + bottom(column);
        moves_++;
    }

    bool wins(int column) const {
        uint64_t after = mine_ | ((all_ + bottom(column)) & column_mask(column));
        return has_four(after);
    }

    // Columns that do not let the opponent win at once; 0 when there is no such move.
    uint64_t safe_moves() const {
        uint64_t possible = (all_ + bottom_row()) & board();
        uint64_t threats = winning_cells(mine_ ^ all_) & board() & ~all_;
        uint64_t forced = possible & threats;
        if (forced != 0) {
            if ((forced & (forced - 1)) != 0)
                return 0;
            possible = forced;
        }
        return possible & ~(threats >> 1);
    }

    static uint64_t column_mask(int column) { return ((uint64_t(1) << Height) - 1) << column * (Height + 1); }

    int score_move(uint64_t move) const { return count_bits(winning_cells(mine_ | move) & board() & ~all_); }
    uint64_t key() const { return mine_ + all_ + bottom_row(); }
    int moves() const { return moves_; }
    bool full() const { return moves_ == cells; }

    uint64_t mirrored_key() const {
        Position mirror;
        for (int column = 0; column < Width; column++) {
            int shift = column * (Height + 1), other = (Width - 1 - column) * (Height + 1);
            uint64_t slot = (uint64_t(1) << (Height + 1)) - 1;
            mirror.mine_ |= (mine_ >> shift & slot) << other;
            mirror.all_ |= (all_ >> shift & slot) << other;
        }
        return mirror.key();
    }

    void print() const {
        bool first_to_move = moves_ % 2 == 0;
        for (int row = Height - 1; row >= 0; row--) {
            for (int column = 0; column < Width; column++) {
                uint64_t cell = uint64_t(1) << (column * (Height + 1) + row);
                bool first = ((mine_ & cell) != 0) == first_to_move;
                putchar((all_ & cell) == 0 ? '.' : first ? 'x' : 'o');
            }
            putchar(row > 0 ? '/' : '\n');
        }
    }

private:
    static constexpr int up = 1, across = Height + 1, rising = Height + 2, falling = Height;

    static constexpr uint64_t bottom_row() {
        uint64_t row = 0;
        for (int column = 0; column < Width; column++)
            row |= uint64_t(1) << column * (Height + 1);
        return row;
    }

    static constexpr uint64_t board() { return bottom_row() * ((uint64_t(1) << Height) - 1); }
    static uint64_t bottom(int column) { return uint64_t(1) << column * (Height + 1); }
    static uint64_t top(int column) { return uint64_t(1) << (column * (Height + 1) + Height - 1); }

    static bool has_four(uint64_t stones) {
        const int steps[] = {up, across, rising, falling};
        for (int step : steps) {
            uint64_t pairs = stones & stones >> step;
            if ((pairs & pairs >> 2 * step) != 0)
                return true;
        }
        return false;
    }

    // Empty or not, the cells that would complete four for these stones.
    static uint64_t winning_cells(uint64_t stones) {
        uint64_t cells = stones << 1 & stones << 2 & stones << 3;
        const int steps[] = {across, rising, falling};
        for (int step : steps) {
            uint64_t pair = stones << step & stones << 2 * step;
            cells |= pair & stones << 3 * step;
            cells |= pair & stones >> step;
            pair = stones >> step & stones >> 2 * step;
            cells |= pair & stones << step;
            cells |= pair & stones >> 3 * step;
        }
        return cells;
    }

    static int count_bits(uint64_t word) {
        int count = 0;
        for (; word != 0; word &= word - 1)
            count++;
        return count;
    }

    uint64_t mine_ = 0, all_ = 0;
    int moves_ = 0;
};

enum class Bound : uint8_t { none, lower, upper };

class TranspositionTable {
public:
    explicit TranspositionTable(size_t size) : entries_(new Entry[size]), size_(size) {}
    TranspositionTable(const TranspositionTable &) = delete;
    TranspositionTable &operator=(const TranspositionTable &) = delete;
    ~TranspositionTable() { delete[] entries_; }

    void clear() {
        for (size_t k = 0; k < size_; k++)
            entries_[k] = Entry{};
        hits_ = 0;
    }

    bool find(uint64_t key, int &value, Bound &bound) {
        const Entry &entry = entries_[key % size_];
        if (entry.bound == Bound::none || entry.key != key)
            return false;
        value = entry.value;
        bound = entry.bound;
        hits_++;
        return true;
    }

    void store(uint64_t key, int value, Bound bound) {
        entries_[key % size_] = {key, static_cast<int8_t>(value), bound};
    }

    long hits() const { return hits_; }

private:
    struct Entry {
        uint64_t key = 0;
        int8_t value = 0;
        Bound bound = Bound::none;
    };

    Entry *entries_;
    size_t size_;
    long hits_ = 0;
};

// A few moves kept in order of their score; equal scores stay in the order of insertion.
template <int Capacity> class MoveList {
public:
    void add(int column, int score) {
        int at = count_++;
        for (; at > 0 && entries_[at - 1].score < score; at--)
            entries_[at] = entries_[at - 1];
        entries_[at] = {column, score};
    }

    struct Entry {
        int column, score;
    };

    const Entry *begin() const { return entries_; }
    const Entry *end() const { return entries_ + count_; }

private:
    Entry entries_[Capacity];
    int count_ = 0;
};

// The value of a position is 0 for a draw; a win counts the stones left to the winner when it comes.
template <typename Board> class Solver {
public:
    explicit Solver(TranspositionTable &table) : table_(table) {
        for (int k = 0; k < Board::width; k++)
            order_[k] = Board::width / 2 + (1 - 2 * (k % 2)) * (k + 1) / 2;
    }

    // Narrows the window from both sides with null-window searches.
    int solve(const Board &board) {
        for (int column = 0; column < Board::width; column++)
            if (board.can_play(column) && board.wins(column))
                return (Board::cells + 1 - board.moves()) / 2;
        int low = -(Board::cells - board.moves()) / 2, high = (Board::cells + 1 - board.moves()) / 2;
        while (low < high) {
            int middle = low + (high - low) / 2;
            if (middle <= 0 && low / 2 < middle)
                middle = low / 2;
            else if (middle >= 0 && high / 2 > middle)
                middle = high / 2;
            int value = search(board, middle, middle + 1);
            if (value <= middle)
                high = value;
            else
                low = value;
        }
        return low;
    }

    // The column of the best move, the most central of equals.
    int best_move(const Board &board, int &value) {
        int best = -1;
        value = -100;
        for (int column : order_) {
            if (!board.can_play(column))
                continue;
            Board next = board;
            next.play(column);
            int found = board.wins(column) ? (Board::cells + 1 - board.moves()) / 2 : next.full() ? 0 : -solve(next);
            if (found > value) {
                value = found;
                best = column;
            }
        }
        return best;
    }

    long nodes() const { return nodes_; }

private:
    int search(const Board &board, int alpha, int beta) {
        nodes_++;
        uint64_t moves = board.safe_moves();
        if (moves == 0)
            return board.full() ? 0 : -(Board::cells - board.moves()) / 2;
        if (board.moves() >= Board::cells - 2)
            return 0;
        int low = -(Board::cells - 2 - board.moves()) / 2, high = (Board::cells - 1 - board.moves()) / 2;
        uint64_t key = canonical_key(board);
        int stored;
        Bound bound;
        if (table_.find(key, stored, bound)) {
            if (bound == Bound::lower && stored > low)
                low = stored;
            if (bound == Bound::upper && stored < high)
                high = stored;
        }
        alpha = alpha < low ? low : alpha;
        beta = beta > high ? high : beta;
        if (alpha >= beta)
            return alpha;
        return search_moves(board, moves, key, alpha, beta);
    }

    int search_moves(const Board &board, uint64_t moves, uint64_t key, int alpha, int beta) {
        MoveList<Board::width> list;
        for (int column : order_)
            if (uint64_t move = moves & Board::column_mask(column))
                list.add(column, board.score_move(move));
        for (const auto &move : list) {
            Board next = board;
            next.play(move.column);
            int value = -search(next, -beta, -alpha);
            if (value >= beta) {
                table_.store(key, value, Bound::lower);
                return value;
            }
            if (value > alpha)
                alpha = value;
        }
        table_.store(key, alpha, Bound::upper);
        return alpha;
    }

    static uint64_t canonical_key(const Board &board) {
        uint64_t key = board.key();
        if (board.moves() > Board::cells / 3)
            return key;
        uint64_t mirrored = board.mirrored_key();
        return mirrored < key ? mirrored : key;
    }

    TranspositionTable &table_;
    int order_[Board::width];
    long nodes_ = 0;
};

// The same values by plain negamax, for boards small enough.
template <typename Board> static int plain_value(const Board &board) {
    if (board.full())
        return 0;
    int best = -100;
    for (int column = 0; column < Board::width; column++) {
        if (!board.can_play(column))
            continue;
        if (board.wins(column))
            return (Board::cells + 1 - board.moves()) / 2;
        Board next = board;
        next.play(column);
        int value = -plain_value(next);
        best = value > best ? value : best;
    }
    return best;
}

static uint32_t random_state = 42;

static int random_below(int bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return static_cast<int>((random_state >> 16) % static_cast<uint32_t>(bound));
}

// A position after some random moves, none of which won.
template <typename Board> static Board random_position(int moves) {
    for (;;) {
        Board board;
        while (board.moves() < moves) {
            int column = random_below(Board::width);
            if (!board.can_play(column))
                continue;
            if (board.wins(column))
                break;
            board.play(column);
        }
        if (board.moves() == moves)
            return board;
    }
}

template <typename Board> static void show_board(TranspositionTable &table, int opening, int games) {
    table.clear();
    Solver<Board> solver(table);
    uint32_t hash = 2166136261u;
    for (int game = 0; game < games; game++) {
        Board board = random_position<Board>(opening);
        int value;
        int move = solver.best_move(board, value);
        hash = (hash ^ static_cast<uint32_t>(value + 64)) * 16777619u;
        hash = (hash ^ static_cast<uint32_t>(move)) * 16777619u;
        if (game == 0) {
            printf("%dx%d value %d move %d board ", Board::width, Board::height, value, move);
            board.print();
        }
    }
    printf("%dx%d games %d nodes %ld hits %ld hash %08x\n", Board::width, Board::height, games, solver.nodes(),
           table.hits(), static_cast<unsigned>(hash));
}

template <typename Board> static int count_disagreements(TranspositionTable &table, int opening, int games) {
    int disagreements = 0;
    table.clear();
    Solver<Board> solver(table);
    for (int game = 0; game < games; game++) {
        Board board = random_position<Board>(opening);
        int fast = solver.solve(board), slow = plain_value(board);
        disagreements += (fast > 0) - (fast < 0) != (slow > 0) - (slow < 0);
    }
    return disagreements;
}

template <typename Board> static void show_game(TranspositionTable &table, int opening) {
    table.clear();
    Solver<Board> solver(table);
    Board board = random_position<Board>(opening);
    printf("%dx%d game", Board::width, Board::height);
    while (!board.full()) {
        int value;
        int move = solver.best_move(board, value);
        bool won = board.wins(move);
        board.play(move);
        printf(" %d", move);
        if (won)
            break;
    }
    printf(" ends after %d: ", board.moves());
    board.print();
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    bool large = strcmp(size, "large") == 0, medium = strcmp(size, "medium") == 0;
    int games = large ? 10 : medium ? 5 : 2;
    TranspositionTable table(large ? 400009 : 20011);
    show_board<Position<4, 4>>(table, 0, 1);
    show_board<Position<5, 4>>(table, large || medium ? 0 : 6, games);
    show_board<Position<6, 5>>(table, large ? 6 : medium ? 10 : 14, games);
    show_board<Position<7, 6>>(table, large ? 18 : medium ? 20 : 24, games);
    show_game<Position<7, 6>>(table, large ? 20 : 24);
    printf("disagreements %d\n", count_disagreements<Position<5, 4>>(table, large ? 8 : medium ? 10 : 12, games));
    return 0;
}

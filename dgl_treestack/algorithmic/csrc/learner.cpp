// An update's gradients of restarts of a Stack RNN: new tokens forward, then the whole window backward, one net after another.
// In C++ because a step of a small net is a dozen products of a few thousand numbers, and Python's calls took most of the time.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

// As `Sizes` in learner.py. depth: rows that h reads.
struct Sizes {
  int64_t restarts, hidden, symbols, stacks, capacity, depth, actions;
  double beta, clip, largest, empty;

  int64_t padded() const { return capacity + 2; }  // the pushed value, the rows, an empty row
};

template <typename T>
T clamped(T value, double bound) {
  return std::min(std::max(value, T(-bound)), T(bound));
}

// Add to products (columns) from column `first` on, for as many columns as VECTORS have lanes, the sum over t of x[t] times
// y[t] (columns). The sums stay in registers, which those of an array of T do not. done: columns that are added already.
template <int64_t VECTORS, typename T>
void add_block(T* products, const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t count, int64_t first, int64_t done) {
  typedef T Vector __attribute__((vector_size(32)));
  constexpr int64_t LANES = 32 / sizeof(T);
  Vector sums[VECTORS] = {}, loaded;
  for (int64_t t = 0; t < count; ++t)
    for (int64_t v = 0; v < VECTORS; ++v) {
      std::memcpy(&loaded, y + t * y_step + first + v * LANES, sizeof loaded);
      sums[v] += x[t * x_step] * loaded;
    }
  for (int64_t i = done - first; i < VECTORS * LANES; ++i) products[first + i] += sums[i / LANES][i % LANES];
}

// products (rows, columns) += sum over t of x[t] (rows) times y[t] (columns). x_step, y_step: numbers between two t.
template <typename T>
void add_products(T* products, const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t count, int64_t rows,
                  int64_t columns) {
  constexpr int64_t LANES = 32 / sizeof(T);
  for (int64_t row = 0; row < rows; ++row, products += columns, ++x) {
    int64_t done = 0;
    for (; done + 4 * LANES <= columns; done += 4 * LANES) add_block<4>(products, x, x_step, y, y_step, count, done, done);
    for (; done < columns && columns >= LANES; done += LANES)  // the last one goes over columns that are done
      add_block<1>(products, x, x_step, y, y_step, count, std::min(done, columns - LANES), done);
    for (int64_t t = 0; t < count; ++t)
      for (int64_t i = done; i < columns; ++i) products[i] += x[t * x_step] * y[t * y_step + i];
  }
}

template <typename T>
T dot(const T* __restrict x, const T* __restrict y, int64_t size) {
  T sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += x[i] * y[i];
  return sum;
}

// One of the restarts. Weights and gradients are those of `StackRNN`, V those of `Net`. Buffers begin at the first token of the
// window; `restarts` nets lie between two tokens. `before`: tokens since the memories were emptied, before the window.
template <typename T>
struct Net {
  const Sizes& sizes;
  const T *U, *A, *D, *P, *V;
  T *grad_U, *grad_A, *grad_D, *grad_P, *grad_V;
  T *rows, *h, *shares, *values;
  const int64_t* inputs;
  int64_t before;

  T* rows_of(int64_t t, int64_t stack) const { return rows + (t * sizes.restarts * sizes.stacks + stack) * sizes.padded(); }
  T* h_of(int64_t t) const { return h + t * sizes.restarts * sizes.hidden; }
  T* shares_of(int64_t t, int64_t stack) const {
    return shares + (t * sizes.restarts * sizes.stacks + stack) * sizes.actions;
  }
  T& value_of(int64_t t, int64_t stack) const { return values[t * sizes.restarts * sizes.stacks + stack]; }
  int64_t symbol(int64_t t) const { return inputs[t * sizes.restarts]; }
  // Rows that a push can have reached after token t; those below are empty.
  int64_t used(int64_t t) const { return std::min(before + t + 1, sizes.capacity); }

  // The rows that h reads at token t, of all stacks.
  std::vector<T> tops(int64_t t) const {
    std::vector<T> read;
    for (int64_t m = 0; m < sizes.stacks; ++m) read.insert(read.end(), rows_of(t, m) + 1, rows_of(t, m) + 1 + sizes.depth);
    return read;
  }

  T sigmoid(T total) const { return 1 / (1 + std::exp(-clamped(total, sizes.largest))); }

  void forward(int64_t t) const {
    const auto read = tops(t);
    const int64_t width = read.size(), H = sizes.hidden;
    T* state = h_of(t);
    for (int64_t i = 0; i < H; ++i) state[i] = sigmoid(U[i * sizes.symbols + symbol(t)] + dot(P + i * width, read.data(), width));
    for (int64_t m = 0; m < sizes.stacks; ++m) {
      T *old = rows_of(t, m), *moved = rows_of(t + 1, m), *share = shares_of(t, m), total = 0;
      value_of(t, m) = old[0] = sigmoid(dot(D + m * H, state, H));
      for (int64_t a = 0; a < sizes.actions; ++a) share[a] = T(sizes.beta) * dot(A + (m * sizes.actions + a) * H, state, H);
      const T most = *std::max_element(share, share + sizes.actions);
      for (int64_t a = 0; a < sizes.actions; ++a) total += share[a] = std::exp(share[a] - most);
      for (int64_t a = 0; a < sizes.actions; ++a) share[a] /= total;
      const T noop = sizes.actions > 2 ? share[2] : 0;
      const auto last = used(t);
      for (int64_t i = 1; i <= last; ++i) moved[i] = share[0] * old[i - 1] + share[1] * old[i + 1] + noop * old[i];
      std::fill(moved + last + 1, moved + sizes.padded(), T(sizes.empty));
    }
  }

  // Return the weighted loss at token t; write its derivatives by the logits into `error`.
  T loss(int64_t t, int64_t target, T weight, T* error) const {
    T total = 0;
    for (int64_t v = 0; v < sizes.symbols; ++v) error[v] = dot(V + v * sizes.hidden, h_of(t), sizes.hidden);
    const T most = *std::max_element(error, error + sizes.symbols), right = error[target];
    for (int64_t v = 0; v < sizes.symbols; ++v) total += std::exp(error[v] - most);
    for (int64_t v = 0; v < sizes.symbols; ++v) error[v] = weight * (std::exp(error[v] - most) / total - (v == target));
    return weight * (std::log(total) + most - right);
  }

  // errors: derivatives by the logits of the tokens from `first` on, before `end`.
  void backward(int64_t first, int64_t end, const T* errors) const {
    const int64_t H = sizes.hidden, M = sizes.stacks, padded = sizes.padded(), width = M * sizes.depth, symbols = sizes.symbols;
    const int64_t logits = M * sizes.actions, next = sizes.restarts * H;
    // Gradients of the stacks after and before a token; of values, logits of actions and totals of all tokens; rows read.
    std::vector<T> after(M * padded), earlier(after), values(end * M), actions(end * logits), totals(end * H), read;
    std::vector<T> grad(H), of_tops(width);
    read.reserve(end * width);
    for (int64_t t = 0; t < end; ++t) {
      const auto of_token = tops(t);
      read.insert(read.end(), of_token.begin(), of_token.end());
    }
    for (int64_t t = end - 1; t >= 0; --t) {
      const auto last = used(t);
      for (int64_t m = 0; m < M; ++m) {
        const T *inner = &after[m * padded], *old = rows_of(t, m), *share = shares_of(t, m), value = value_of(t, m);
        T *outer = &earlier[m * padded], *of_share = &actions[t * logits + m * sizes.actions];
        values[t * M + m] = clamped(share[0] * inner[1] * value * (1 - value), sizes.clip);
        T push = 0, pop = 0, stay = 0;
        for (int64_t i = 1; i <= last; ++i) {
          push += inner[i] * old[i - 1];
          pop += inner[i] * old[i + 1];
          stay += inner[i] * old[i];
        }
        if (sizes.actions == 2) {  // a number and its complement
          of_share[0] = clamped(clamped(push - pop, sizes.clip) * T(sizes.beta) * share[0] * share[1], sizes.clip);
          of_share[1] = -of_share[0];
        } else {
          const T of_outcome[] = {clamped(push, sizes.clip), clamped(pop, sizes.clip), clamped(stay, sizes.clip)};
          const T mean = dot(of_outcome, share, 3);
          for (int64_t a = 0; a < 3; ++a)
            of_share[a] = clamped(T(sizes.beta) * share[a] * (of_outcome[a] - mean), sizes.clip);
        }
        const T noop = sizes.actions > 2 ? share[2] : 0;
        for (int64_t i = 1; i <= last; ++i) outer[i] = share[0] * inner[i + 1] + share[1] * inner[i - 1] + noop * inner[i];
      }
      std::fill(grad.begin(), grad.end(), T(0));
      std::fill(of_tops.begin(), of_tops.end(), T(0));
      add_products(grad.data(), &values[t * M], 1, D, H, M, 1, H);
      add_products(grad.data(), &actions[t * logits], 1, A, H, logits, 1, H);
      if (t >= first) add_products(grad.data(), errors + (t - first) * symbols, 1, V, H, symbols, 1, H);
      const T* state = h_of(t);
      T* total = &totals[t * H];
      for (int64_t i = 0; i < H; ++i) total[i] = clamped(grad[i], sizes.clip) * state[i] * (1 - state[i]);
      for (int64_t i = 0; i < H; ++i) grad_U[i * symbols + symbol(t)] += total[i];
      add_products(of_tops.data(), total, 1, P, width, H, 1, width);
      for (int64_t m = 0; m < M; ++m) {
        T* outer = &earlier[m * padded];
        for (int64_t k = 0; k < sizes.depth; ++k) outer[1 + k] += of_tops[m * sizes.depth + k];
        for (int64_t i = 1; i <= std::max(last, sizes.depth); ++i) outer[i] = clamped(outer[i], sizes.clip);
      }
      std::swap(after, earlier);
    }
    add_products(grad_D, values.data(), M, h, next, end, M, H);
    add_products(grad_A, actions.data(), logits, h, next, end, logits, H);
    add_products(grad_P, totals.data(), H, read.data(), width, end, H, width);
    add_products(grad_V, errors, symbols, h_of(first), next, end - first, symbols, H);
  }
};

// weights, gradients: of U, A, D, P, V. buffers: rows, h, shares, values, from the first token of the window on; `end` tokens are
// in it, the last `fresh` of which are new. targets, importance: of the new tokens.
template <typename T>
void learn(const Sizes& sizes, T** weights, T** gradients, T** buffers, const int64_t* inputs, const int64_t* targets,
           const T* importance, int64_t end, int64_t fresh, int64_t before, T* losses) {
  const int64_t R = sizes.restarts, H = sizes.hidden, M = sizes.stacks, first = end - fresh;
  const int64_t counts[] = {H * sizes.symbols, M * sizes.actions * H, M * H, H * M * sizes.depth, sizes.symbols * H};
  const int64_t steps[] = {M * sizes.padded(), H, M * sizes.actions, M};
  std::vector<T> errors(fresh * sizes.symbols);
  for (int64_t r = 0; r < R; ++r) {
    T *w[5], *g[5], *b[4];
    for (int i = 0; i < 5; ++i) {
      w[i] = weights[i] + r * counts[i];
      g[i] = gradients[i] + r * counts[i];
      std::fill_n(g[i], counts[i], T(0));
    }
    for (int i = 0; i < 4; ++i) b[i] = buffers[i] + r * steps[i];
    const Net<T> net{sizes, w[0], w[1], w[2], w[3], w[4], g[0], g[1], g[2], g[3], g[4], b[0], b[1], b[2], b[3], inputs + r, before};
    losses[r] = 0;
    std::fill(errors.begin(), errors.end(), T(0));
    for (int64_t t = first, i = r; t < end; ++t, i += R) {
      net.forward(t);
      if (importance[i] != 0) losses[r] += net.loss(t, targets[i], importance[i], &errors[(t - first) * sizes.symbols]);
    }
    net.backward(first, end, errors.data());
  }
}

}  // namespace

#define TREESTACK_LEARN(NAME, T)                                                                                      \
  extern "C" __attribute__((visibility("default"))) void NAME(                                                        \
      const Sizes* sizes, T** weights, T** gradients, T** buffers, const int64_t* inputs, const int64_t* targets,     \
      const T* importance, int64_t end, int64_t fresh, int64_t before, T* losses) {                                   \
    learn(*sizes, weights, gradients, buffers, inputs, targets, importance, end, fresh, before, losses);              \
  }
TREESTACK_LEARN(learn_float, float)
TREESTACK_LEARN(learn_double, double)

// A step of one form, piece by piece, ahead and back, for `native.cpp`.

#pragma once

#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <unordered_map>

#include "maps.h"

namespace treestack {

// A kernel: native code from a file, of those tensors that it uses, or a function of Python.
class Kernel {
 public:
  Kernel(const std::string& path, Places used)
      : native_(std::make_unique<torch::inductor::AOTIModelPackageLoader>(path, "model", true)), used_(std::move(used)) {}
  explicit Kernel(py::function plain) : plain_(std::move(plain)) {}

  Tensors operator()(const Tensors& tensors) const {
    if (!native_) return plain_(tensors).cast<Tensors>();
    Tensors chosen;
    chosen.reserve(used_.size());
    for (auto i : used_) chosen.push_back(tensors[i]);
    return native_->boxed_run(std::move(chosen));
  }

 private:
  std::unique_ptr<torch::inductor::AOTIModelPackageLoader> native_;
  Places used_;
  py::function plain_;
};

constexpr size_t MANY = 16;  // tensors, of which there may be more: room is asked for once

// Products of one x. weights, biases: by operator, the places of parameters, one per product.
struct Unit {
  Shape tail, x_shape, y_shape;
  bool constant, biased, shared;
  std::vector<Places> weights, biases;
};

struct Piece {
  Places known, makes, reads;
  std::shared_ptr<Kernel> ahead{}, back{};
};

// fields: how many buffers a piece is given; before_y: how many tensors before y.
struct Step {
  size_t fields, before_y;
  std::vector<Unit> units;
  std::vector<Piece> pieces;
  std::vector<Places> rounds;
};

// How many numbers x and y of so many nodes take up.
inline int64_t room_for(const Step& step, int64_t count) {
  int64_t found = 0;
  for (auto& unit : step.units) found += Room::needed(count, unit.x_shape) + Room::needed(count, unit.y_shape);
  return found;
}

// Rows of a sweep. operators, sizes: of every segment, and how many rows it has.
struct Chunk {
  size_t arity;
  int64_t start, count;
  Tensor children, nodes;
  Places operators;
  Shape sizes;
};

// What the way back needs of a chunk: external input and noise, x and y by unit.
struct Kept {
  Tensors own, x, y;
};

// The steps of one form in a sweep. joint: `at_once` of its maps.
class Steps {
 public:
  Steps(const Step& step, const Tensors& parameters, bool joint)
      : step_(step), parameters_(parameters), joint_(joint), maps_(step.units.size()) {}

  Kept ahead(const Tensors& buffers, const Chunk& chunk, Tensors own, Room& room) {
    auto& units = step_.units;
    Kept kept{std::move(own), Tensors(units.size()), Tensors(units.size())};
    for (size_t number = 0; number < step_.pieces.size(); ++number) {
      auto& piece = step_.pieces[number];
      bool last = number == step_.rounds.size();
      if (piece.ahead) {
        Tensors rows;
        rows.reserve(MANY);
        for (auto i : piece.makes) add_rows(rows, empty_x(units[i], room, chunk.count, kept.x[i]));
        if (last) for (auto& buffer : buffers) add_rows(rows, own_rows(buffer, chunk));
        (*piece.ahead)(tensors(piece, buffers, chunk, kept, rows));
      }
      if (!last) for (auto i : step_.rounds[number]) kept.y[i] = mapped(i, chunk, kept.x[i], room);
    }
    return kept;
  }

  // Adds to the gradients of children's rows, and of external input where they are wanted.
  void back(const Tensors& buffers, const Chunk& chunk, const Kept& kept, const Tensors& gradients, const Tensor& of_inputs,
            Room& room) {
    Tensors of_y(step_.units.size()), arriving;
    arriving.reserve(MANY);
    for (auto& gradient : gradients) arriving.push_back(own_rows(gradient, chunk));
    for (size_t number = step_.pieces.size(); number-- > 0;) {
      auto& piece = step_.pieces[number];
      if (piece.back) {
        auto found = (*piece.back)(tensors(piece, buffers, chunk, kept, arriving));
        TORCH_CHECK(found.size() == piece.reads.size(), "a kernel has ", found.size(), " results");
        for (size_t i = 0; i < found.size(); ++i) add(piece, piece.reads[i], found[i], chunk, gradients, of_inputs, of_y);
      }
      if (number == 0) return;
      arriving.clear();
      for (auto i : step_.rounds[number - 1]) {
        auto of_x = through(i, chunk, kept.x[i], of_y[i], room);
        if (!step_.units[i].constant) arriving.push_back(of_x);
      }
    }
  }

  // Adds the gradients of parameters to theirs, and forgets them.
  void settle(Tensors& gradients) {
    for (auto& maps : maps_)
      for (auto& [operator_, map] : maps) map.settle(gradients);
  }

 private:
  static Tensor own_rows(const Tensor& buffer, const Chunk& chunk) {
    Quiet quiet;
    return buffer.narrow(0, chunk.start, chunk.count);
  }

  // Room for x, and what of it a kernel writes: all but the one at its end.
  Tensor empty_x(const Unit& unit, Room& room, int64_t count, Tensor& x) const {
    Quiet quiet;
    x = room.take(count, unit.x_shape);
    auto own = unit.biased ? x.narrow(-1, 0, unit.tail.back()) : x;
    if (!joint_) x = own;
    else if (unit.biased) x.select(-1, -1).fill_(1.0);
    return own;
  }

  static Tensors tensors(const Piece& piece, const Tensors& buffers, const Chunk& chunk, const Kept& kept,
                         const Tensors& last) {
    Tensors found;
    found.reserve(buffers.size() + 1 + kept.own.size() + piece.known.size() + last.size());
    found.insert(found.end(), buffers.begin(), buffers.end());
    found.push_back(chunk.children);
    found.insert(found.end(), kept.own.begin(), kept.own.end());
    for (auto i : piece.known) found.push_back(kept.y[i]);
    found.insert(found.end(), last.begin(), last.end());
    return found;
  }

  Map& map(size_t number, size_t operator_) {
    auto found = maps_[number].find(operator_);
    if (found != maps_[number].end()) return found->second;
    auto& unit = step_.units[number];
    Map made(parameters_, unit.weights[operator_], unit.biases[operator_], joint_);
    return maps_[number].emplace(operator_, std::move(made)).first->second;
  }

  // Calls a function with the map, the first row and the number of rows of every segment, or of all where they share a map.
  template <typename Function>
  void by_segment(size_t number, const Chunk& chunk, Function function) {
    auto& unit = step_.units[number];
    auto repeats = std::accumulate(unit.y_shape.begin(), unit.y_shape.end() - 1, int64_t{1}, std::multiplies<>());
    if (unit.shared) return function(map(number, chunk.operators[0]), 0, chunk.count * repeats);
    int64_t start = 0;
    for (size_t i = 0; i < chunk.sizes.size(); start += chunk.sizes[i++])
      function(map(number, chunk.operators[i]), start * repeats, chunk.sizes[i] * repeats);
  }

  Tensor mapped(size_t number, const Chunk& chunk, const Tensor& x, Room& room) {
    Quiet quiet;
    auto& unit = step_.units[number];
    auto y = room.take(chunk.count, unit.y_shape), to = flat(y), from = unit.constant ? x : flat(x);
    by_segment(number, chunk, [&](Map& map, int64_t start, int64_t rows) {
      map.apply({from, start, rows}, {to, start, rows});
    });
    return y;
  }

  // The gradient of x from that of y; zeros where nothing depends on it.
  Tensor through(size_t number, const Chunk& chunk, const Tensor& x, const Tensor& of_y, Room& room) {
    Quiet quiet;
    auto& unit = step_.units[number];
    auto of_x = room.take(chunk.count, unit.tail);
    if (!of_y.defined()) return of_x.zero_();
    auto to = flat(of_x), from = flat(of_y), own = unit.constant ? x : flat(x);
    by_segment(number, chunk, [&](Map& map, int64_t start, int64_t rows) {
      map.back({own, start, rows}, {from, start, rows}, {to, start, rows});
    });
    return of_x;
  }

  // Puts a gradient of what a piece read where it belongs.
  void add(const Piece& piece, size_t place, const Tensor& gradient, const Chunk& chunk, const Tensors& gradients,
           const Tensor& of_inputs, Tensors& of_y) const {
    Quiet quiet;
    if (place < step_.fields) {
      add_at(gradients[place], chunk.children, gradient.flatten(0, 1));
    } else if (place >= step_.before_y) {
      auto& own = of_y[piece.known[place - step_.before_y]];
      own = own.defined() ? own + gradient : gradient;
    } else if (of_inputs.defined()) {
      add_at(of_inputs, chunk.nodes, gradient);
    }
  }

  const Step& step_;
  const Tensors& parameters_;
  bool joint_;
  std::vector<std::unordered_map<size_t, Map>> maps_;  // by unit and operator
};

}  // namespace treestack

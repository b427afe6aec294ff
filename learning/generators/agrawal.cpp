// SPDX-License-Identifier: Apache-2.0

#include "learning/generators/generator.hpp"

namespace weft::learning {
namespace {

/// Nine features of a person; class 0 (group A of the paper) by one of its ten functions, a task each.
/// @source Agrawal, Imielinski and Swami 1993, "Database mining: a performance perspective", IEEE TKDE 5, section 5
class Agrawal final : public SampleGenerator {
 public:
  explicit Agrawal(const GeneratorOptions& options)
      : SampleGenerator(
            options, {{"salary", "commission", "age", "elevel", "car", "zipcode", "hvalue", "hyears", "loan"}, 2, 10}) {
  }

 private:
  struct Person {
    float salary, commission, age, level, value, years, loan;
    int third() const { return age < 40 ? 0 : age < 60 ? 1 : 2; }
  };

  static float between(RandomStream& random, float low, float high) {
    return low + (high - low) * random.next_uniform();
  }
  static bool is_in(float x, float low, float high) { return x >= low && x <= high; }

  /// Of three bands by age: [50, 100], [75, 125], [25, 75] thousand.
  static bool earns(float income, int third) {
    constexpr float kLow[] = {50e3f, 75e3f, 25e3f};
    return is_in(income, kLow[third], kLow[third] + 50e3f);
  }
  static bool is_taught(const Person& p) {
    constexpr float kLow[] = {0, 1, 2}, kHigh[] = {1, 3, 4};
    return is_in(p.level, kLow[p.third()], kHigh[p.third()]);
  }
  static bool earns_by_level(const Person& p) {
    constexpr float kTaught[] = {25e3f, 50e3f, 50e3f}, kOther[] = {50e3f, 75e3f, 25e3f};
    const float low = is_taught(p) ? kTaught[p.third()] : kOther[p.third()];
    return is_in(p.salary, low, low + 50e3f);
  }
  static bool owes_by_salary(const Person& p) {
    constexpr float kEarns[] = {100e3f, 200e3f, 300e3f}, kOther[] = {200e3f, 300e3f, 100e3f};
    const float low = earns(p.salary, p.third()) ? kEarns[p.third()] : kOther[p.third()];
    return is_in(p.loan, low, low + 200e3f);
  }

  static bool is_of_group(const Person& p, std::uint64_t function) {
    const float income = p.salary + p.commission, share = 2.0f / 3.0f * income;
    switch (function) {
      case 0:
        return p.third() != 1;
      case 1:
        return earns(p.salary, p.third());
      case 2:
        return is_taught(p);
      case 3:
        return earns_by_level(p);
      case 4:
        return owes_by_salary(p);
      case 5:
        return earns(income, p.third());
      case 6:
        return share - 0.2f * p.loan - 20e3f > 0;
      case 7:
        return share - 5e3f * p.level - 20e3f > 0;
      case 8:
        return share - 5e3f * p.level - 0.2f * p.loan - 10e3f > 0;
      default: {
        const float equity = p.years < 20 ? 0.0f : 0.1f * p.value * (p.years - 20.0f);
        return share - 5e3f * p.level + 0.2f * equity - 10e3f > 0;
      }
    }
  }

  void draw(RandomStream& random, std::uint64_t task, std::span<float> x, float& y) override {
    Person p{};
    p.salary = between(random, 20e3f, 150e3f);
    p.commission = p.salary >= 75e3f ? 0.0f : between(random, 10e3f, 75e3f);
    p.age = static_cast<float>(20 + random.next_below(61));
    p.level = static_cast<float>(random.next_below(5));
    const auto car = static_cast<float>(1 + random.next_below(20)), zip = static_cast<float>(random.next_below(9));
    p.value = between(random, 0.5f, 1.5f) * (9.0f - zip) * 100e3f;
    p.years = static_cast<float>(1 + random.next_below(30));
    p.loan = between(random, 0.0f, 500e3f);
    const float all[] = {p.salary, p.commission, p.age, p.level, car, zip, p.value, p.years, p.loan};
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = all[i];
    y = noisy_label(random, is_of_group(p, task) ? 0 : 1, 2, options().noise.value_or(0.0f));
  }
};

}  // namespace

std::unique_ptr<SampleGenerator> make_agrawal(const GeneratorOptions& options) {
  return std::make_unique<Agrawal>(options);
}

}  // namespace weft::learning

// Planes to volumes: their order, and how values are held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "common/cli/error.h"
#include "extract/decode/volume.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::frames {
namespace {

using coldframe::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An axial plane of 2 × 1 values at this height.
Plane plane_at(double z) {
  Plane plane;
  plane.width = 2;
  plane.height = 1;
  plane.origin = {5, 6, z};
  plane.across = {-2, 0, 0};
  plane.down = {0, -3, 0};
  return plane;
}

VolumeGeometry stack_at(const std::vector<double>& heights) {
  std::vector<Plane> planes;
  std::vector<std::string> names;
  for (const double z : heights) {
    planes.push_back(plane_at(z));
    names.push_back("f" + std::to_string(static_cast<int>(z)));
  }
  return stack(planes, names);
}

TEST(Stack, OrdersPlanesByTheirPlaces) {
  const VolumeGeometry volume = stack_at({4, 0, 6, 2});
  EXPECT_THAT(volume.size, ElementsAre(2, 1, 4));
  EXPECT_THAT(volume.places, ElementsAre(2, 0, 3, 1));
  EXPECT_THAT(volume.origin, ElementsAre(5, 6, 0));
  EXPECT_THAT(volume.axes[2], ElementsAre(0, 0, 2));
  EXPECT_THAT(volume.at({1, 0, 1.5}), ElementsAre(3, 6, 3));
  const Orientation ras = volume.orientation();
  EXPECT_EQ(ras[0], (FileAxis{0, true}));
  EXPECT_EQ(ras[1], (FileAxis{1, true}));
  EXPECT_EQ(ras[2], (FileAxis{2, false}));
}

TEST(Stack, NamesTheFilesBetweenWhichASliceIsMissing) {
  EXPECT_THAT(message_of<DataError>([] {
                stack_at({0, 2, 4, 8, 10});
              }),
              HasSubstr("between 'f4' and 'f8' lie 4.00 mm, between others 2.00 mm: a slice is "
                        "missing"));
  EXPECT_THAT(message_of<DataError>([] { stack_at({0, 2, 4, 6.5, 8.5}); }), HasSubstr("unevenly"));
  EXPECT_THAT(message_of<DataError>([] { stack_at({0, 2, 4, 4, 6}); }), HasSubstr("at one place"));
  EXPECT_EQ(stack_at({0, 2.05, 4, 6.1}).size[2], 4);  // rounded in the header
}

TEST(Stack, TakesASinglePlaneThatStatesItsThickness) {
  Plane plane = plane_at(1);
  const std::array<std::string, 1> name{"a"};
  EXPECT_THROW(stack(std::span(&plane, 1), name), DataError);
  plane.through = {0, 0, 7};
  EXPECT_THAT(stack(std::span(&plane, 1), name).axes[2], ElementsAre(0, 0, 7));
}

TEST(Geometry, TellsShears) {
  VolumeGeometry volume = stack_at({0, 1, 2});
  EXPECT_FALSE(volume.is_sheared());
  volume.axes[2][1] = 0.3;
  EXPECT_TRUE(volume.is_sheared());
}

TEST(Volume, HoldsIntegersUntilAValueIsNone) {
  Volume volume(stack_at({2, 0, 1}));
  const auto values = [&] {
    return volume.with_values([](const auto* held) { return std::vector<double>(held, held + 6); });
  };
  const auto bytes = [&] {
    return volume.with_values([](const auto* held) { return sizeof *held; });
  };
  volume.set_plane(0, std::array{-1024.0, 32767.0});
  EXPECT_EQ(bytes(), sizeof(std::int16_t));
  volume.set_plane(1, std::array{0.5, 1e6});
  EXPECT_EQ(bytes(), sizeof(float));
  volume.set_plane(2, std::array{7.0, std::numeric_limits<double>::quiet_NaN()});
  EXPECT_THAT(values(), ElementsAre(0.5, 1e6, 7, ::testing::IsNan(), -1024, 32767));
}

}  // namespace
}  // namespace coldframe::frames

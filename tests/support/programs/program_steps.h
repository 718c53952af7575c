// Steps: the ways in which a random program grows. Each may throw Refused.
#pragma once

#include "kaon/tests/support/programs/program_builder.h"

namespace kaon::test::steps {

void pointwise(ProgramBuilder& b);  // an elementwise operator on arrays of any shape
void reduction(ProgramBuilder& b);  // over some axes, mostly the last ones
void motif(ProgramBuilder& b);      // what losses and layers are made of: values used twice around a reduction
void again(ProgramBuilder& b);      // a call that is there already, once more or with other attributes
void movement(ProgramBuilder& b);   // views, slices, joins
void layer(ProgramBuilder& b);      // with parameters
void any_row(ProgramBuilder& b);    // any operator, as in the test table
void control_flow(ProgramBuilder& b);

// For other steps: what motif makes of one value, and operators on given ones.
void motif_of(ProgramBuilder& b, Ref h);
Ref pointwise_of(ProgramBuilder& b, Ref a);
Ref pointwise_of(ProgramBuilder& b, Ref a, Ref c);
Ref reduction_of(ProgramBuilder& b, Ref a, const Shape& axes, bool keepdims);

}  // namespace kaon::test::steps

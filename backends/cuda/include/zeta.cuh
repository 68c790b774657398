// The series of zeta far to the right.
#pragma once

// From this real part on the series in these terms, Bernoulli numbers over (2k)!, is exact.
#define ZETA_LARGE 16.0
#define ZETA_TERMS 8
__constant__ double ZETA[ZETA_TERMS] = {1. / 12,
                                        -1. / 720,
                                        1. / 30240,
                                        -1. / 1209600,
                                        1. / 47900160,
                                        -691. / 1307674368000.,
                                        1. / 74724249600.,
                                        -3617. / 10670622842880000.};

// Kernels that do the same for many arrays: a table of their addresses is passed by value.
#pragma once

// For each of `ROWS` arrays of results a row of words: the addresses of what is read and written,
// how many elements there are, and the first block that works on them.
template <int ROWS, int WORDS> struct leaf_table {
    unsigned long long rows[ROWS][WORDS];

    // The row that a block works on: the last of `count` that begins at it or before.
    __device__ __forceinline__ int row_of(unsigned int block, int count) const {
        int low = 0, high = count - 1;
        while (low < high) {
            int middle = (low + high + 1) / 2;
            if (rows[middle][WORDS - 1] <= block)
                low = middle;
            else
                high = middle - 1;
        }
        return low;
    }
};

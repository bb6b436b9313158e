//! Keys and tokens that OpenSSL made. The private keys were not kept.

use super::Algorithm;

pub(super) struct Case {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: &'static str,
    pub(super) pem: &'static str,
    pub(super) token: &'static str,
}

pub(super) const CASES: [Case; 5] = [
    Case {
        algorithm: Algorithm::Rs256,
        key_id: "8BmIG9A6ufuhfEBHnKnFOVY29QwkAexQ3ZwPArQvvEQ",
        pem: "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA1oOW1gAagFeOdyA1HjfJ\nRvRyuFS/cRwPDQ6y5g65tOMX6/ZZtKItpCEknyKZfEXzgAq84gtQgqf5CxV0lQvG\nRxCpU4vN2DGQMFceOeXfwV/kX8j35nXwc7xhGh7uE37uABvxvBZ2LRziHoldFRqF\nDpuDzwfpTi4iGAVLXrjRq8pjZQ2E5iSBqLPbylKC+Vr8UUCz3SM0Ob5t4F4mvztr\nKRC64z2f6dcL1m1ixMFdpuc1yDsf4cHvgZyV4hUl0JNj8iBTZ7sIWCzP1pAZ9n47\nvixGUMjq9KolHZZhRxoNHs4kCvr39/mwYURm2fpMZCm8fbj0tH6O/RZiwu6voN9b\nzwIDAQAB\n-----END PUBLIC KEY-----\n",
        token: "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogIjhCbUlHOUE2dWZ1aGZFQkhuS25GT1ZZMjlRd2tBZXhRM1p3UEFyUXZ2RVEifQ.eyJpc3MiOiAib3BlbnNzbCIsICJzdWIiOiAiUlMyNTYifQ.N7LFI5udgC1OaTAFx75ZK919u-86jgr8jBq-wsmunH-34HKFb0LBMr5-okjIH6g0Z5zjk-LgNpboxzCUmZZkI6PO9IQM7kVAaYpMFsoVqzJ44wq7eDHI7S9EZIaJUUzc1aKIq4ln7c2znZ_21rYmJ_kiAbs4fE7NXIhoujLVcozXqoudTX-z20c_fBH6zDc6IshSfqHgwi3SJz0-RlA3R6U3utK2vAqHBM3AAPtQ3NWNvkEqfNzaZTMkM8YaimrrzmNNhxO4NE_dfv16OoFEg_sMGWmwiCjoZlKw7Xds1q2O6btj0amv1UOOW1-h0Hk9TpAUZTP31OQWxh8bW-3_lg",
    },
    Case {
        algorithm: Algorithm::Ps384,
        key_id: "SdaStNnfFTvqPZmYMU1HKGvsMMHIc-Us-ipUmzO-ppE",
        pem: "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA2PPy9x+XPXiKLnANrMvl\nj65eVSeX1hYM/mou03L9tqV0csf3X/GzxXfOxx9PW6mpDkZr1GQGMqW+k3dWhjWk\nzFVAk+wVQlyA5mSq5EXmnLqcHiMwt7wCHc0+xkujKXJcKiZOOoHCtC1Mh3aQCTu6\n8kLqMcFU888VnOCiza9BTWgLz9fymgyMJjYSdJlxI8bzQ0rtwC7KFo7yAhCqQFoH\nc2Fzg3fSHHCZ1a+Af5h5Y7g9LoxsY/UYRk9XOZgpPTIdYkbjvFBi8ov1jQdrx97W\nOnHS7+LI3c7CUMf2g1FaqlT7Ppzjt4V7auuqe3tkZyTxFxPqGcqXR2qMHw94pzVc\nNwIDAQAB\n-----END PUBLIC KEY-----\n",
        token: "eyJhbGciOiAiUFMzODQiLCAia2lkIjogIlNkYVN0Tm5mRlR2cVBabVlNVTFIS0d2c01NSEljLVVzLWlwVW16Ty1wcEUifQ.eyJpc3MiOiAib3BlbnNzbCIsICJzdWIiOiAiUFMzODQifQ.jd97jyFBPvFWeI76JqVVln640_-CG-hjqkWJYf4mfdbkgX0qKDaR7NDWNb-0DO8cS0U7Be8c7rIa9Qhu1AHNufk7BliL_NiFCQQ_nSZXhMrMHZe7kyBlGdVGFZCh12BhL2-0XY9VKJYT_yEh0X9wUDIMxOz8hDh8xHBLc-0mGYkjGERuXXQ0pgkCn_jadJvoiYD69rJVWz7K0-dEau_kIeXJxM72A8od9fgmpr1GPgeIg4u_uu7NPaLHvp-36RDw7MzpfG_WME_JNrsL2KOyt1gUUZftovGe5xpYFekUVQpbV6z7Y8kxfAGfL0HVFJK1OvQmceuIFrtdQIJSbKnUCA",
    },
    Case {
        algorithm: Algorithm::Es256,
        key_id: "BMlGKELskG6ZNiIW40xA7PKCGrqpl6yVZMfuct2B3Zs",
        pem: "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEa8hKpnBRSY4JPglzmZQ3huZlbjvq\njjJH5ixcR8Qx2a/0jpgTgUH54c6a+28ufNlYbGhE4S1EHeb6N1phf73MKg==\n-----END PUBLIC KEY-----\n",
        token: "eyJhbGciOiAiRVMyNTYiLCAia2lkIjogIkJNbEdLRUxza0c2Wk5pSVc0MHhBN1BLQ0dycXBsNnlWWk1mdWN0MkIzWnMifQ.eyJpc3MiOiAib3BlbnNzbCIsICJzdWIiOiAiRVMyNTYifQ.o-8YTGzOrlkqHPAFkHYADIvfC6EjNDh2CvcpOCT0ODOa0cKkOka6QUo_ViRl-zZVi7cAOm10WIVVDO5-S2VvMw",
    },
    Case {
        algorithm: Algorithm::Es384,
        key_id: "8YPVGrz-UH0_i3wyvMbX2wj6y7gc7R8B4Z79pfnhJ9A",
        pem: "-----BEGIN PUBLIC KEY-----\nMHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEdqUitY49PQyq2FXVXaJIP+/mpzbvMCQ2\neMFne8/SR76meljI7Ry2IyENT3xA/dFo+3zezy8e7mvbiXYtzRKTX1FWllAKYB2u\nkyaKq33Tr80WOiQZX5ihoYjov5Cot2LY\n-----END PUBLIC KEY-----\n",
        token: "eyJhbGciOiAiRVMzODQiLCAia2lkIjogIjhZUFZHcnotVUgwX2kzd3l2TWJYMndqNnk3Z2M3UjhCNFo3OXBmbmhKOUEifQ.eyJpc3MiOiAib3BlbnNzbCIsICJzdWIiOiAiRVMzODQifQ.s_YDhOQj_Aiy2at0tnONYlX0Da5ojCQ4uOyK_PfLPs19eUHp8PQoLgBHpE8PHOmBSC1Ff3pfhRXIg5E19PQ2V00cLy2yu-HtG9oodfy0QVGbEeNE0Jz0FxlNvcE4hsxV",
    },
    Case {
        algorithm: Algorithm::Es512,
        key_id: "XVsdEnPAMNg1WV2SoGWCagnLtmlEhVIUarnBLJ0Uv4g",
        pem: "-----BEGIN PUBLIC KEY-----\nMIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQBA6UhfVr3ZZt6w/kXe1VX2Mi1TqaR\nnbp6eQfKjxlr+BRbM8ltHeGEFF/PnXxavlFj4yHMR22aZPMrhVxEEU+A6XcA49GQ\nrOrH/mmM5mSFeK+YUHNW/8+Dye5k7DBvM0N0X8braNux0BeW1bQZGyb3PB2EidXP\nopFLVi6Ok3Dc69qwsh4=\n-----END PUBLIC KEY-----\n",
        token: "eyJhbGciOiAiRVM1MTIiLCAia2lkIjogIlhWc2RFblBBTU5nMVdWMlNvR1dDYWduTHRtbEVoVklVYXJuQkxKMFV2NGcifQ.eyJpc3MiOiAib3BlbnNzbCIsICJzdWIiOiAiRVM1MTIifQ.AW98Lu10L65pC_nvCZ-e4rkEYs89OsX9rvPYrHZxbl2S5Tz5vbtRSQKUdd9HVTwmt0SN8dQ9XrTh97n82gnQZMvLAeiJVse414x0_z4hVZQdgcGyzUo0nnpS85WKoIffuRrAdEq8NY_1Y3IHaUN72HDjFtJvx3BVglSR55LK5zIGyhzp",
    },
];
